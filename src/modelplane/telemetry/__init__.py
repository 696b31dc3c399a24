"""Telemetry of a running Modelplane: metrics, health, log lines, traces.

Telemetry never changes what Modelplane does. Without telemetry no exporter is imported, and errors here are
logged and never raised into the measured work.

Interface for the other packages:

    from modelplane.telemetry import metrics, server, traces
    from modelplane.telemetry.metric_definitions import Program, Result

    with traces.export_spans("modelplane-controller"):  # nothing, unless OTEL_... asks for traces
        registry = metrics.build_registry(Program.CONTROLLER, server.route_to_loop(loop, manager.state))
        alive = server.watch_loop(loop)
        with server.serve("127.0.0.1:8080", alive=alive, ready=ready, registry=registry):
            ...

    metrics.count_reconcile("ModelReplica", Result.SUCCESS, 0.02)  # counted whether or not anybody reads it
    with traces.open_span("write", cluster="a") as span:      # free, unless traces are exported
        span.set(result="conflict")
    log.info("...", extra=traces.make_fields(kind="ModelReplica", name="a"))

``alive`` and ``ready`` return "" or, as a sentence, why not. A server's address is ``HOST:PORT``.
"""
