"""Who owns which object: one owner each, kept through a drop, and never a ghost after a leave."""

import pytest

from holdfast.core.errors import Throttled
from holdfast.core.limits import Limits
from holdfast.core.ownership import Objects, Orphans, Ownership
from holdfast.core.session import Player, SeatStep, seat_of
from tests.core.samples import Hero, a_player


def nobody(player: Player[Hero], object_id: str) -> None:
    return None


def test_an_object_has_one_owner_and_both_sides_know() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ada = a_player("ada")

    objects.own(ada, "sword")

    assert objects.owners.get("sword") is ada
    assert ada.owned == {"sword"}
    assert "sword" in objects.owners
    assert list(objects.owners) == ["sword"]
    assert len(objects.owners) == 1


def test_an_object_that_changes_hands_leaves_the_first_owner() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ada, bob = a_player("ada"), a_player("bob")
    objects.own(ada, "sword")

    objects.own(bob, "sword")

    assert objects.owners.get("sword") is bob
    assert ada.owned == set()
    assert bob.owned == {"sword"}


def test_an_object_given_to_its_owner_again_stays() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ada = a_player("ada")
    objects.own(ada, "sword")

    objects.own(ada, "sword")

    assert objects.owners.get("sword") is ada
    assert ada.owned == {"sword"}


def test_an_object_may_belong_to_the_server() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ada = a_player("ada")
    objects.own(ada, "door")

    objects.own(None, "door")

    assert objects.owners.get("door") is None
    assert "door" in objects.owners
    assert ada.owned == set()


def test_an_unknown_object_has_no_owner() -> None:
    objects: Ownership[Hero] = Ownership(Limits())

    assert objects.owners.get("unicorn") is None
    assert "unicorn" not in objects.owners


def test_a_destroyed_object_is_nobodys_and_unknown() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ada = a_player("ada")
    objects.own(ada, "vase")

    objects.destroy("vase")
    objects.destroy("vase")

    assert "vase" not in objects.owners
    assert ada.owned == set()


def test_a_loop_over_the_objects_may_destroy_them() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    for object_id in ("a", "b", "c"):
        objects.own(None, object_id)

    for object_id in Objects(objects.owners):
        objects.destroy(object_id)

    assert len(objects.owners) == 0


def test_a_drop_and_a_return_change_nothing_about_what_a_player_owns() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ada = a_player("ada")
    seat_of(ada).happened(SeatStep.TAKEN)
    objects.own(ada, "sword")

    seat_of(ada).happened(SeatStep.DROPPED)
    while_away = objects.owners.get("sword")
    seat_of(ada).happened(SeatStep.RETURNED)

    assert while_away is ada
    assert objects.owners.get("sword") is ada
    assert ada.owned == {"sword"}


# After a real leave


def test_the_server_policy_gives_everything_to_the_server() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ada, bob = a_player("ada"), a_player("bob")
    objects.own(ada, "sword")
    objects.own(ada, "shield")
    objects.own(bob, "bow")

    objects.orphan(ada, "server", nobody)

    assert objects.owners.get("sword") is objects.owners.get("shield") is None
    assert set(objects.owners) == {"sword", "shield", "bow"}
    assert objects.owners.get("bow") is bob


def test_the_destroy_policy_destroys_what_the_player_owned_and_nothing_else() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ada, bob = a_player("ada"), a_player("bob")
    objects.own(ada, "sword")
    objects.own(bob, "bow")
    objects.own(None, "door")

    objects.orphan(ada, "destroy", nobody)

    assert set(objects.owners) == {"bow", "door"}


def test_the_heir_policy_asks_for_each_object_in_a_fixed_order() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ada, bob, cyd = a_player("ada"), a_player("bob"), a_player("cyd")
    for object_id in ("c", "a", "b"):
        objects.own(ada, object_id)
    asked: list[tuple[Player[Hero], str]] = []

    def heir(player: Player[Hero], object_id: str) -> Player[Hero] | None:
        asked.append((player, object_id))
        return {"a": bob, "b": cyd}.get(object_id)

    objects.orphan(ada, "heir", heir)

    assert asked == [(ada, "a"), (ada, "b"), (ada, "c")]
    assert {object_id: objects.owners.get(object_id) for object_id in objects.owners} == {"a": bob, "b": cyd}
    assert (bob.owned, cyd.owned) == ({"a"}, {"b"})


@pytest.mark.parametrize("policy", ["server", "destroy", "heir"])
def test_a_player_who_left_owns_nothing(policy: Orphans) -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ada = a_player("ada")
    objects.own(ada, "sword")

    objects.orphan(ada, policy, nobody)

    assert ada.owned == set()
    assert objects.owners.get("sword") is None


def test_the_one_who_left_cannot_be_the_heir() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ada = a_player("ada")
    objects.own(ada, "sword")

    objects.orphan(ada, "heir", lambda player, _: player)

    assert objects.owners.get("sword") is None
    assert ada.owned == set()


def test_when_the_heir_hook_raises_nothing_stays_with_the_one_who_left() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
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
    assert {object_id: objects.owners.get(object_id) for object_id in objects.owners} == {"a": bob}


def test_a_player_who_has_left_can_be_given_nothing() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ghost = a_player("ada")
    seat_of(ghost).happened(SeatStep.FREED)

    with pytest.raises(ValueError, match="has left"):
        objects.own(ghost, "sword")

    assert "sword" not in objects.owners


# Limits


def test_one_object_too_many_is_refused_with_what_to_do_and_changes_nothing() -> None:
    objects: Ownership[Hero] = Ownership(Limits(objects_max=2))
    ada = a_player("ada")
    objects.own(ada, "a")
    objects.own(None, "b")

    with pytest.raises(Throttled, match=r"has 2 objects; disown\(\) what is gone, or raise Limits.objects_max"):
        objects.own(ada, "c")

    assert set(objects.owners) == {"a", "b"}
    assert ada.owned == {"a"}


def test_one_object_too_many_for_a_player_is_refused_and_stays_where_it_was() -> None:
    objects: Ownership[Hero] = Ownership(Limits(owned_per_player_max=1))
    ada, bob = a_player("ada"), a_player("bob")
    objects.own(ada, "a")
    objects.own(bob, "b")

    with pytest.raises(Throttled, match=r"player ada owns 1 objects.*Limits.owned_per_player_max"):
        objects.own(ada, "b")

    assert objects.owners.get("b") is bob
    assert (ada.owned, bob.owned) == ({"a"}, {"b"})


def test_at_the_limit_what_is_known_still_changes_hands_and_what_is_gone_makes_space() -> None:
    objects: Ownership[Hero] = Ownership(Limits(objects_max=2, owned_per_player_max=1))
    ada = a_player("ada")
    objects.own(ada, "a")
    objects.own(None, "b")

    objects.own(ada, "a")
    objects.own(None, "a")
    objects.own(ada, "b")
    objects.destroy("a")
    objects.own(None, "c")

    assert {object_id: objects.owners.get(object_id) for object_id in objects.owners} == {"b": ada, "c": None}


def test_an_id_that_is_too_long_is_refused() -> None:
    objects: Ownership[Hero] = Ownership(Limits(object_id_bytes_max=4))

    with pytest.raises(ValueError, match=r"of 6 bytes is too long: see Limits.object_id_bytes_max"):
        objects.own(None, "ééé")

    assert len(objects.owners) == 0


def test_an_heir_may_get_more_than_they_could_take() -> None:
    objects: Ownership[Hero] = Ownership(Limits(owned_per_player_max=1))
    ada, bob = a_player("ada"), a_player("bob")
    objects.own(ada, "a")
    objects.own(bob, "b")

    objects.orphan(ada, "heir", lambda *_: bob)

    assert bob.owned == {"a", "b"}


# Groups, for whoever saves them


def test_a_change_is_a_new_version_of_one_bucket() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    ada = a_player("ada")
    for number in range(200):
        objects.own(None, f"thing {number}")
    before = dict(objects.buckets)

    objects.own(ada, "thing 7")

    (changed,) = [number for number, version in objects.buckets if before[number] != version]
    assert objects.owners_in(changed)["thing 7"] is ada
    assert sum(len(objects.owners_in(number)) for number in before) == 200


def test_a_bucket_without_objects_is_none() -> None:
    objects: Ownership[Hero] = Ownership(Limits())
    objects.own(None, "vase")

    objects.destroy("vase")

    assert list(objects.buckets) == []
