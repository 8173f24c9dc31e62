"""Thrift calls as HTTP POSTs over one kept connection.

thriftpy2's own client for HTTP connects anew for each call and sets the default timeout of all sockets of the
process meanwhile, which threads that do so at once leave behind.
"""

from __future__ import annotations

import socket
from http.client import HTTPConnection, HTTPException
from typing import Final, final

from thriftpy2.transport import TTransportException

_OK: Final = 200
_HEADERS: Final = {"Content-Type": "application/x-thrift", "Accept": "application/x-thrift"}


@final
class HttpTransport:
    """A thriftpy2 transport over ``sock``, which is connected (and encrypted) already."""

    __slots__ = ("_answer", "_call", "_http")

    def __init__(self, sock: socket.socket, host: str, port: int) -> None:
        self._http = HTTPConnection(host, port)
        self._http.sock = sock
        # A connection that the server ended is replaced by the pool; this would do it without TLS.
        self._http.auto_open = 0
        self._call = bytearray()
        self._answer = memoryview(b"")

    def write(self, data: bytes) -> None:
        self._call += data

    def flush(self) -> None:
        """Make the call, and take in its whole answer."""
        call, self._call = bytes(self._call), bytearray()
        try:
            self._http.request("POST", "/", call, _HEADERS)
            response = self._http.getresponse()
            self._answer = memoryview(response.read())
        except HTTPException as error:
            raise TTransportException(
                TTransportException.UNKNOWN, f"no answer of HTTP: {type(error).__name__}"
            ) from error
        if response.status != _OK:
            raise TTransportException(
                TTransportException.UNKNOWN, f"the answer of HTTP is {response.status} {response.reason}"
            )

    def read(self, size: int) -> bytes:
        taken, self._answer = self._answer[:size], self._answer[size:]
        return bytes(taken)

    def close(self) -> None:
        self._http.close()
