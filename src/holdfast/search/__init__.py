"""Searches for rooms: a small language, and the index that answers it.

    where     = [ either ]                                    nothing: every room
    either    = both { OR both }
    both      = negation { AND negation }
    negation  = NOT negation | "(" either ")" | comparison
    comparison = term ( "=" | "<>" | "<" | "<=" | ">" | ">=" ) value | term IN "(" value { "," value } ")"
    order_by  = list of: term [ ASC | DESC ]
    term      = id | kind | name | players | max_players | open_seats | created_at | age_s | phase
              | creator | host | is_locked | has_password | properties.key | properties."any key"
    value     = number | true | false | text in 'single' or "double" quotes, in which a backslash escapes

GameLift's terms mean the same as ours: gameSessionId, gameSessionName, gameSessionProperties.key, maximumSessions,
playerSessionCount, creationTimeMillis (whole milliseconds) and hasAvailablePlayerSessions (open_seats > 0).
Keywords are case-insensitive; terms and texts are case-sensitive. The rules:

- Text is compared by code point, false is less than true, and 1 equals 1.0. A boolean is not a number.
- A term other than a property has one type, and is compared only with values of it: else `Invalid`.
- Values of two types are not equal and have no order: `<>` is true of them, every other comparison false. A search that
  finds nothing says so if it compares a property with a type that it has in no room (`Index.why_empty`).
- A room that lacks a property fails every comparison of it, `<>` too. So `NOT properties.map = 'dust'` finds rooms
  without a map, and `properties.map <> 'dust'` does not. What is neither text, number nor boolean, nor a list of them,
  counts as missing; so does NaN.
- A list equals a value if one of its elements does, is unequal to it if none does, and is IN if one of them is.
  It has no order.
- `age_s` is translated to `created_at`: `age_s < 60` is `created_at > now - 60`.
- Rooms are in the order of their `order_by` terms, then oldest first. Types stand in the order boolean, number, text;
  text is put in order by its first 32 characters, integers beyond 64 bits by their nearest floats. Rooms that lack
  the term, or have a list, come last both ways. No two rooms are of the same age (their ids decide), so terms after
  `created_at` or `age_s` change nothing.
"""

from holdfast.search.index import Found, Index
from holdfast.search.query import Query, parse_query
from holdfast.search.types import conflict

__all__ = ["Found", "Index", "Query", "conflict", "parse_query"]
