"""Listening sockets, bound before the processes that serve them start."""

import socket

from tidegate.events.errors import Refused

BACKLOG = 1024


class CannotListen(Refused):
    """An address that cannot be listened on; the message names it and says why."""

    code = "cannot_listen"


def bound(host: str, port: int) -> socket.socket:
    """A listening TCP socket; no process inherits it that is not given it. Raises CannotListen naming the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise CannotListen(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listening.listen(BACKLOG)
    listening.setblocking(False)
    return listening


def given(descriptor: int) -> socket.socket:
    """The listening socket that the parent gave this process. Processes of ours do not get it in turn: who holds a
    listening socket keeps its port, and connections to it wait for nobody."""
    listening = socket.socket(fileno=descriptor)
    listening.set_inheritable(False)
    return listening
