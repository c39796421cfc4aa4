"""Watch and steer running transports: the interactive layer of Hawser, for asyncio.

* ``connect``: a connection to a running process, a ``Bus``
* ``Tware``: a program that is signalled, with decorators
* ``Signal``, ``Flow``, ``Source``, …: what comes over the socket, typed

The protocol is that of ``docs/interact.md``; nothing but the standard library is needed.
"""

from ._bus import Bus, Subscription, connect, usual_socket
from ._errors import Gone, HawserError, Nobody, Refused
from ._tware import Tware
from ._types import (
    Attachment,
    Audit,
    Entry,
    Event,
    Field,
    Flow,
    Probe,
    Rights,
    Signal,
    Source,
    Statistics,
    Time,
    Variable,
    nanoseconds,
)

__all__ = [
    "Attachment",
    "Audit",
    "Bus",
    "Entry",
    "Event",
    "Field",
    "Flow",
    "Gone",
    "HawserError",
    "Nobody",
    "Probe",
    "Refused",
    "Rights",
    "Signal",
    "Source",
    "Statistics",
    "Subscription",
    "Time",
    "Tware",
    "Variable",
    "connect",
    "nanoseconds",
    "usual_socket",
]
