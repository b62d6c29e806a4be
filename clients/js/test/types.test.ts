/** Messages that are described are checked by the compiler: this file is run, and type-checked by `npm run types`. */

import { expect, test } from "vitest";
import type { ClientRoom, Messages } from "../src/index.js";
import { FakeServer, ROOM, SEAT, settled, welcome } from "./fake_server.js";

interface Move {
  x: number;
  y: number;
}

interface ArenaMessages {
  toServer: { move: Move; ask: Record<never, never> };
  toClient: { moved: Move & { who: string } };
  answers: { move: Move | null };
  version: "1";
  state: { pile: string[]; leader: { id: string } };
  player: { score: number };
  mine: { score: number; hand: string[] };
}

interface ChatMessages {
  toServer: { say: { text: string } };
  toClient: { said: { text: string } };
}

/** What is generated fits the contract. */
export const described: Messages = {} as ArenaMessages;

test("a described room takes and gives what was described", async () => {
  const server = new FakeServer();
  const connecting = server.connect();
  await settled();
  await server.last.open();
  await server.last.say(welcome("s1", "t1"));
  const joining = (await connecting).join<ArenaMessages>("r1");
  await settled();
  await server.last.say(SEAT, ["reply", 1, ROOM, null], ["data", 1, 1, 0, "moved", { who: "bob", x: 1, y: 2 }]);
  const room: ClientRoom<ArenaMessages> = await joining;
  const seen: string[] = [];

  room.on("moved", ({ who, x, y }, type) => seen.push(`${type} ${who} ${x + y}`));
  room.on("holdfast.left", ({ reason }) => seen.push(reason));
  room.send("move", { x: 1, y: 2 });
  room.send("ask");
  void room.ask("move", { x: 1, y: 2 }, { timeoutS: 5 }).then((moved) => seen.push(`at ${moved?.x}`));
  // What answers it is not described.
  void room.ask("ask").then((answer: unknown) => seen.push(String(answer)));
  // @ts-expect-error no such field in the answer
  void room.ask("move", { x: 1, y: 2 }).then((moved) => moved?.z);
  // @ts-expect-error a body is missing
  room.ask("move").catch(() => {});
  // @ts-expect-error no such message
  room.send("jump", {});
  // @ts-expect-error a field is missing
  room.send("move", { x: 1 });
  // @ts-expect-error a body is missing
  room.send("move");
  // @ts-expect-error not for clients
  room.on("move", () => {});
  await settled();

  expect(seen).toEqual(["moved bob 3"]);
  expect(server.last.all("data")).toHaveLength(9);
});

/** What is shared may be read as it was described, and not be changed. Never called: it need only compile. */
export function reading(room: ClientRoom<ArenaMessages>, any: ClientRoom, chat: ClientRoom<ChatMessages>): void {
  const pile: readonly string[] | undefined = room.state?.pile;
  const score: number | undefined = room.players.bob?.score;
  const hand: readonly string[] | undefined = room.mine?.hand;
  room.onChange("state", (state) => state?.leader.id.length);
  room.onChange("players.*", (player, id) => [player?.score, id.length]);
  room.onChange("mine", (mine) => mine?.hand.length);
  room.onChange("state.pile.*", (card: string, place: number) => [card, place, pile, score, hand]);
  room.onChange((paths) => paths.length);
  // @ts-expect-error it is the server's
  room.state?.pile.push("ace");
  // @ts-expect-error it is the server's
  if (room.state) room.state.leader.id = "eve";
  // @ts-expect-error it is the server's
  if (room.mine) room.mine.score = 9;
  // @ts-expect-error it may not have come
  room.state.pile;
  // @ts-expect-error no such field
  room.players.bob?.hand;
  any.state.whatever.it.is = any.players.bob.score + any.mine.hand;
  // @ts-expect-error it is not described
  chat.state.pile;
}
