"""The server's end of a connection, for tests that look at it."""

from holdfast.core.session import Session
from holdfast.server.connection.connection import LiveConnection


def live_connection(session: Session) -> LiveConnection:
    connection = session.connection
    assert isinstance(connection, LiveConnection)
    return connection
