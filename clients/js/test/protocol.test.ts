/** The pure half of the client, without a connection. */

import { expect, test } from "vitest";
import { JSON_TEXT } from "../src/codec.js";
import { LIMITS } from "../src/limits.js";
import { ClientProtocol } from "../src/protocol.js";
import { seatAt, welcome } from "./fake_server.js";

const AUTH = { scheme: "guest", credential: "" };

/** The server says this to a client that has just said hello. */
function welcomed(client: ClientProtocol, ...told: Parameters<typeof welcome>): ClientProtocol {
  const payload = new TextEncoder().encode(JSON.stringify([welcome(...told)]));
  expect([...client.receive(payload)]).not.toEqual([]);
  return client;
}

test("a session that was lost before the save leaves no requests to the next one", () => {
  const client = welcomed(new ClientProtocol(JSON_TEXT, AUTH, LIMITS), "s1", "t1", "resumed", [seatAt(0)], 5);
  client.signInAgain("token_reused");

  const other = new ClientProtocol(JSON_TEXT, AUTH, LIMITS);
  other.load(client.save(), true);
  welcomed(other, "s2", "t2");
  other.lost();

  const [[, , resume]] = JSON.parse(new TextDecoder().decode(other.hello()));
  expect([resume.session, resume.requests]).toEqual(["s2", 0]);
});

test("large messages are acknowledged before they fill the window, and a request takes the acknowledgement along", () => {
  const client = welcomed(new ClientProtocol(JSON_TEXT, AUTH, LIMITS), "s1", "t1", "new");
  const hear = (...frames: unknown[]) => {
    for (const event of client.receive(new TextEncoder().encode(JSON.stringify(frames))))
      if (event.is === "arrived") client.processed(event);
  };
  const said = () => client.outgoing(false, true).flatMap((payload) => JSON.parse(new TextDecoder().decode(payload)));
  const large = (seq: number) => ["data", 1, seq, 0, "hit", "x".repeat(30_000)];

  hear(["seat", "joined", 1, 1, "r", "arena"], large(1));
  const early = said();
  hear(large(2), large(3));
  const late = said();
  hear(["data", 1, 4, 0, "hit", "x"]);
  client.request("leave", {});

  expect([early, late]).toEqual([[], [["ack", 1, 3]]]);
  expect(said().map(([name]) => name)).toEqual(["ack", "request"]);
});
