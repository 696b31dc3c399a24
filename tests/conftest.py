"""What holds for every test."""

import os

# Else gRPC starts threads in every process that is forked off, and a process with threads
# may not enter a user namespace.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
