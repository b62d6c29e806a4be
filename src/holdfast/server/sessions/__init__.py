"""The life of sessions on this server: opened, dropped, resumed, restored, ended."""
