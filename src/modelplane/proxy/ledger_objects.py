"""Ledgers of the gateways in a cluster, as ConfigMaps: gateways publish them, the controllers read them.

An object has the sums of one gateway in one day or month. It stays when the gateway is gone, and the
controllers delete it once its period is over.
"""

import base64
import datetime as dt
import gzip
import logging
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from modelplane.api import labels
from modelplane.api.inference_gateway import DEFAULT_NAME
from modelplane.api.meta import GATEWAY_NAMESPACE
from modelplane.gateway.usage.ledger import (
    Ledger,
    Rows,
    decode_rows,
    encode_rows,
    end_of,
    is_kept,
    join_ledgers,
)
from modelplane.kube.resources import Object

_log = logging.getLogger(__name__)

SELECTOR = f"{labels.USAGE}={DEFAULT_NAME}"
"""Label selector of the objects."""

_PERIOD, _SUMS = "period", "sums"
_MOST_BYTES = 64 << 20


def build_object(gateway: str, period: str, rows: Rows) -> Object:
    """Return the object of a gateway's sums in a period; the same for the same sums."""
    content = gzip.compress(encode_rows(rows), mtime=0)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"usage-{gateway}-{period}",
            "namespace": GATEWAY_NAMESPACE,
            "labels": {labels.USAGE: DEFAULT_NAME},
        },
        "data": {_PERIOD: period},
        "binaryData": {_SUMS: base64.b64encode(content).decode()},
    }


def read_period(item: Object) -> str:
    """Return the period of an object; empty if it has none."""
    return str((item.get("data") or {}).get(_PERIOD, ""))


def is_over(item: Object, now: dt.datetime) -> bool:
    """Return True if the period of an object is over; False if the object does not say which it is."""
    try:
        end_of(read_period(item))
    except ValueError:
        return False
    return not is_kept(read_period(item), now)


class _Known(NamedTuple):
    item: Object
    ledger: Ledger


class Published:
    """Sums of all gateways, read from their objects."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._joined = Ledger()
        self._was_complete = False

    def read(self, objects: Iterable[Object]) -> Ledger:
        """Return the sums; the same value while no object changes.

        An object that cannot be read keeps the sums that were last read from it. Raises ``OSError`` if there
        are none and none were known of the others: without them, budgets that are spent would open.
        """
        sums: dict[str, _Known] = {}
        unknown: list[str] = []
        for item in objects:
            name = item["metadata"]["name"]
            former = self._known.get(name)
            if former is not None and former.item is item:
                sums[name] = former
                continue
            try:
                end_of(read_period(item))
                sums[name] = _Known(item, Ledger({read_period(item): _rows(item)}))
            except (zlib.error, ValueError, EOFError, OSError) as error:
                problem = f"ConfigMap {GATEWAY_NAMESPACE}/{name} is damaged: {error}"
                if former is None and not self._was_complete:
                    unknown.append(problem)
                    continue
                _log.warning("%s", problem)
                sums[name] = _Known(item, former.ledger if former else Ledger())
        if sums != self._known:
            self._known, self._joined = (
                sums,
                join_ledgers(published_sums.ledger for published_sums in sums.values()),
            )
        if unknown:
            raise OSError(f"{min(unknown)}; delete it if its sums need not count")
        self._was_complete = True
        return self._joined


def _rows(item: Object) -> Rows:
    content = base64.b64decode((item.get("binaryData") or {}).get(_SUMS, ""), validate=True)
    unpacking = zlib.decompressobj(wbits=31)
    text = unpacking.decompress(content, _MOST_BYTES)
    if not unpacking.eof:
        raise EOFError("it is not complete")
    return decode_rows(text)
