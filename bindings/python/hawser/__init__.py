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
    Ended,
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

#: The package's version, that of Hawser.
__version__ = "0.2.0"

__all__ = [
    "Attachment",
    "Audit",
    "Bus",
    "Ended",
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
    "__version__",
    "connect",
    "nanoseconds",
    "usual_socket",
]
