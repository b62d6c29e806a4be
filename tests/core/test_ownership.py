"""Who owns which object: one owner each, kept through a drop, and never a ghost after a leave."""

import pytest

from holdfast.core.ownership import Orphans, Ownership
from holdfast.core.player import Player, SeatEvent
from tests.core.samples import Hero, a_player


def nobody(player: Player[Hero], object_id: str) -> None:
    return None


def test_an_object_has_one_owner_and_both_sides_know() -> None:
    objects: Ownership[Hero] = Ownership()
    ada = a_player("ada")

    objects.own(ada, "sword")

    assert objects.owner_of("sword") is ada
    assert ada.owned == {"sword"}
    assert "sword" in objects
    assert list(objects) == ["sword"]
    assert len(objects) == 1


def test_an_object_that_changes_hands_leaves_the_first_owner() -> None:
    objects: Ownership[Hero] = Ownership()
    ada, bob = a_player("ada"), a_player("bob")
    objects.own(ada, "sword")

    objects.own(bob, "sword")

    assert objects.owner_of("sword") is bob
    assert ada.owned == set()
    assert bob.owned == {"sword"}


def test_an_object_given_to_its_owner_again_stays() -> None:
    objects: Ownership[Hero] = Ownership()
    ada = a_player("ada")
    objects.own(ada, "sword")

    objects.own(ada, "sword")

    assert objects.owner_of("sword") is ada
    assert ada.owned == {"sword"}


def test_an_object_may_belong_to_the_server() -> None:
    objects: Ownership[Hero] = Ownership()
    ada = a_player("ada")
    objects.own(ada, "door")

    objects.own(None, "door")

    assert objects.owner_of("door") is None
    assert "door" in objects
    assert ada.owned == set()


def test_an_unknown_object_has_no_owner() -> None:
    objects: Ownership[Hero] = Ownership()

    assert objects.owner_of("unicorn") is None
    assert "unicorn" not in objects


def test_a_destroyed_object_is_nobodys_and_unknown() -> None:
    objects: Ownership[Hero] = Ownership()
    ada = a_player("ada")
    objects.own(ada, "vase")

    objects.destroy("vase")
    objects.destroy("vase")

    assert "vase" not in objects
    assert ada.owned == set()


def test_a_loop_over_the_objects_may_destroy_them() -> None:
    objects: Ownership[Hero] = Ownership()
    for object_id in ("a", "b", "c"):
        objects.own(None, object_id)

    for object_id in objects:
        objects.destroy(object_id)

    assert len(objects) == 0


def test_a_drop_and_a_return_change_nothing_about_what_a_player_owns() -> None:
    objects: Ownership[Hero] = Ownership()
    ada = a_player("ada")
    ada.happened(SeatEvent.TAKEN)
    objects.own(ada, "sword")

    ada.happened(SeatEvent.DROPPED)
    while_away = objects.owner_of("sword")
    ada.happened(SeatEvent.RETURNED)

    assert while_away is ada
    assert objects.owner_of("sword") is ada
    assert ada.owned == {"sword"}


# After a real leave


def test_the_server_policy_gives_everything_to_the_server() -> None:
    objects: Ownership[Hero] = Ownership()
    ada, bob = a_player("ada"), a_player("bob")
    objects.own(ada, "sword")
    objects.own(ada, "shield")
    objects.own(bob, "bow")

    objects.orphan(ada, "server", nobody)

    assert objects.owner_of("sword") is objects.owner_of("shield") is None
    assert set(objects) == {"sword", "shield", "bow"}
    assert objects.owner_of("bow") is bob


def test_the_destroy_policy_destroys_what_the_player_owned_and_nothing_else() -> None:
    objects: Ownership[Hero] = Ownership()
    ada, bob = a_player("ada"), a_player("bob")
    objects.own(ada, "sword")
    objects.own(bob, "bow")
    objects.own(None, "door")

    objects.orphan(ada, "destroy", nobody)

    assert set(objects) == {"bow", "door"}


def test_the_heir_policy_asks_for_each_object_in_a_fixed_order() -> None:
    objects: Ownership[Hero] = Ownership()
    ada, bob, cyd = a_player("ada"), a_player("bob"), a_player("cyd")
    for object_id in ("c", "a", "b"):
        objects.own(ada, object_id)
    asked: list[tuple[Player[Hero], str]] = []

    def heir(player: Player[Hero], object_id: str) -> Player[Hero] | None:
        asked.append((player, object_id))
        return {"a": bob, "b": cyd}.get(object_id)

    objects.orphan(ada, "heir", heir)

    assert asked == [(ada, "a"), (ada, "b"), (ada, "c")]
    assert {object_id: objects.owner_of(object_id) for object_id in objects} == {"a": bob, "b": cyd, "c": None}
    assert (bob.owned, cyd.owned) == ({"a"}, {"b"})


@pytest.mark.parametrize("policy", ["server", "destroy", "heir"])
def test_a_player_who_left_owns_nothing(policy: Orphans) -> None:
    objects: Ownership[Hero] = Ownership()
    ada = a_player("ada")
    objects.own(ada, "sword")

    objects.orphan(ada, policy, nobody)

    assert ada.owned == set()
    assert objects.owner_of("sword") is None


def test_the_one_who_left_cannot_be_the_heir() -> None:
    objects: Ownership[Hero] = Ownership()
    ada = a_player("ada")
    objects.own(ada, "sword")

    objects.orphan(ada, "heir", lambda player, _: player)

    assert objects.owner_of("sword") is None
    assert ada.owned == set()


def test_when_the_heir_hook_raises_nothing_stays_with_the_one_who_left() -> None:
    objects: Ownership[Hero] = Ownership()
    ada, bob = a_player("ada"), a_player("bob")
    for object_id in ("a", "b", "c"):
        objects.own(ada, object_id)

    def heir(player: Player[Hero], object_id: str) -> Player[Hero]:
        if object_id == "b":
            raise LookupError("no such family")
        return bob

    with pytest.raises(LookupError):
        objects.orphan(ada, "heir", heir)

    assert ada.owned == set()
    assert {object_id: objects.owner_of(object_id) for object_id in objects} == {"a": bob, "b": None, "c": None}


def test_a_player_who_has_left_can_be_given_nothing() -> None:
    objects: Ownership[Hero] = Ownership()
    ghost = a_player("ada")
    ghost.happened(SeatEvent.FREED)

    with pytest.raises(ValueError, match="has left"):
        objects.own(ghost, "sword")

    assert "sword" not in objects
