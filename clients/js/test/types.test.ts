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
