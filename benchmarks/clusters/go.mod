module modelplane.ai/benchmarks/clusters

go 1.25.0
