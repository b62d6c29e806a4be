"""Holdfast's client for programs without an event loop: `from holdfast.sync import connect`."""

from holdfast.client.sync import ClientRoom, ClientSession, Placement, RoomWatch, connect

__all__ = ["ClientRoom", "ClientSession", "Placement", "RoomWatch", "connect"]
