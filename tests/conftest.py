"""What holds for every test."""

import os
import signal

# Else gRPC starts threads in every process that is forked off, and a process with threads
# may not enter a user namespace.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# A shell starts what is to run in the background with SIGINT ignored, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
