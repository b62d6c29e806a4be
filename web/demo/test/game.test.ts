import type { ClientRoom } from "holdfast";
import { expect, test } from "vitest";
import { Game } from "../src/game";
import type { ArenaMessages } from "../src/messages";

/** As much of a page's storage as the game needs; the next page has the same one. */
function pageStorage(): Storage {
  const kept = new Map<string, string>();
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, text: string) => kept.set(key, text),
    removeItem: (key: string) => kept.delete(key),
  } as unknown as Storage;
}

test("a command that the session has taken keeps its number on the next page", () => {
  const storage = pageStorage();
  const game = new Game(storage);

  game.taken(game.steer([1, 0]));

  expect(new Game(storage).steer([1, 0]).number).toBe(2);
});

test("the number of a command that still waits is used again on the next page", () => {
  const storage = pageStorage();
  const game = new Game(storage);

  game.taken(game.steer([1, 0]));
  game.steer([1, 0]);

  expect(new Game(storage).steer([1, 0]).number).toBe(2);
});

/** As much of a room as the game follows; `collects` is a message from it. */
function sea() {
  let hears: (body: { number: number; ship: string }) => void = () => {};
  const room = { onChange: () => {}, on: (_: string, listener: typeof hears) => (hears = listener) };
  return {
    room: room as unknown as ClientRoom<ArenaMessages>,
    collects: (number: number) => hears({ number, ship: "ship-1" }),
  };
}

test("coins that were found before this player came are not lost, also if the page is loaded again before the next", () => {
  const storage = pageStorage();
  const before = new Game(storage);
  before.follow(sea().room);
  before.taken(before.steer([1, 0]));
  const game = new Game(storage);
  const { room, collects } = sea();
  game.follow(room);

  collects(29);
  collects(30);

  expect([game.lost, game.duplicated, game.received]).toEqual([0, 0, 2]);
});

test("a coin that the next page does not hear of is lost", () => {
  const storage = pageStorage();
  const here = sea();
  new Game(storage).follow(here.room);
  here.collects(29);
  const game = new Game(storage);
  const there = sea();
  game.follow(there.room);

  there.collects(31);

  expect(game.lost).toBe(1);
});

test("a new seat counts from one", () => {
  const game = new Game(pageStorage());
  game.taken(game.steer([1, 0]));

  game.forget();

  expect(game.steer([1, 0]).number).toBe(1);
});
