"""What can go wrong, with the other end's own words."""


class HawserError(Exception):
    """Any error of this package."""


class Nobody(HawserError):
    """Nobody listens at the socket."""


class Refused(HawserError):
    """A request was refused; the text says why and what to do."""


class Gone(HawserError):
    """The connection is over: the process ended, or serves this subscriber no more."""


def printable(value: object) -> str:
    """The value's text as one line that does not act on a terminal: control and bidirectional characters and the
    ends of lines are escaped, wherever they come from."""
    acts = {0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)}
    shown = (f"\\u{ord(c):04x}" if ord(c) in acts or c < " " and c != "\t" or "\x7f" <= c <= "\x9f" else c for c in str(value))
    return "".join(shown)
