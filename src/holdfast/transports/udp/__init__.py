"""Datagrams beside a stream: a session that speaks over WebSocket or TCP has its `latest` frames on UDP.

The key comes with the welcome, for this connection only. `seal.py` has what is on the wire; `server.py` and `client.py`
the two ends, without sockets; `sockets.py` gives them some.
"""
