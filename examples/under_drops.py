"""Test a room under drops, in ten lines: `holdfast.testing` breaks connections, in virtual time."""

from holdfast import Message, Player, PlayerData, Room, on
from holdfast.testing import MemoryServer, run


class Add(Message):
    n: int


class Total(Message):
    n: int


class Purse(PlayerData):
    coins: int = 0


class Bank(Room[Purse]):
    @on(Add)
    def add(self, player: Player[Purse], add: Add) -> None:
        player.data.coins += add.n
        player.send(Total(player.data.coins))


async def no_coin_is_lost_or_duplicated() -> None:
    async with MemoryServer([Bank], seed=7) as server:
        ada = await server.connect("ada", messages=[Total])
        room = await ada.join_or_create("bank")
        for coins in range(1, 101):
            server.link(ada).cut_next("client")  # in the middle of its next payload
            await room.send(Add(1))
            assert await room.receive() == Total(coins)
        assert ada.drops == 100
    print("100 coins, 100 drops: none lost, none duplicated")


def test_no_coin_is_lost_or_duplicated() -> None:
    """pytest runs this; no plugin is needed."""
    run(no_coin_is_lost_or_duplicated())


if __name__ == "__main__":
    test_no_coin_is_lost_or_duplicated()
