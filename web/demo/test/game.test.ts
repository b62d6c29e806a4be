import { expect, test } from "vitest";
import { Game } from "../src/game";

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

test("a new seat counts from one", () => {
  const game = new Game(pageStorage());
  game.taken(game.steer([1, 0]));

  game.forget();

  expect(game.steer([1, 0]).number).toBe(1);
});
