"""A real Envoy over real servers: what a client of a gateway sees, through changes of its configuration."""

import asyncio
import datetime as dt
import ipaddress
import json
import os
import signal
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from modelplane.local import envoy
from modelplane.local.ports import free_port
from modelplane.routing.envoy import files
from modelplane.routing.table import Backend, Listener, Route, Table

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]
