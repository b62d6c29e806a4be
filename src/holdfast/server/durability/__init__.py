"""Rooms that outlive their server: saved between two turns, heard of when they are saved, brought back as they were."""
