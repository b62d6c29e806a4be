"""A name server for one container, as Docker has one: `python -m tests.deployed.names 127.0.0.11 name=address …`."""

import socket
import struct
import sys

_HEADER = struct.Struct("!HHHHHH")
_A, _IN = 1, 1
_ANSWER, _UNKNOWN = 0x8580, 0x8583


def answer(query: bytes, addresses: dict[str, str]) -> bytes:
    """The address of the name that is asked for; that there is none, if there is none."""
    number, _, questions, *_ = _HEADER.unpack_from(query)
    labels, at = [], _HEADER.size
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode())
        at += 1 + length
    kind, _ = struct.unpack_from("!HH", query, at + 1)
    question = query[_HEADER.size : at + 5]
    address = addresses.get(".".join(labels))
    if address is None or kind != _A:
        flags = _UNKNOWN if address is None else _ANSWER
        return _HEADER.pack(number, flags, questions, 0, 0, 0) + question
    found = struct.pack("!HHHIH", 0xC00C, _A, _IN, 1, 4) + socket.inet_aton(address)
    return _HEADER.pack(number, _ANSWER, questions, 1, 0, 0) + question + found


def main() -> None:
    """Answer until killed."""
    here, *pairs = sys.argv[1:]
    addresses = dict(pair.split("=") for pair in pairs)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.bind((here, 53))
        while True:
            query, peer = asked.recvfrom(512)
            asked.sendto(answer(query, addresses), peer)


if __name__ == "__main__":
    main()
