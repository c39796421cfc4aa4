"""What can go wrong, with the other end's own words."""


class HawserError(Exception):
    """Any error of this package."""


class Nobody(HawserError):
    """Nobody listens at the socket."""


class Refused(HawserError):
    """A request was turned down; the text says why and what to do."""


class Gone(HawserError):
    """The connection is over: the process ended, or serves this subscriber no more."""
