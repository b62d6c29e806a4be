/** Bodies that move, as in benchmarks/state.py and benchmarks/shared_state.py. */

import { Encoder, schema, t } from "@colyseus/schema";

Encoder.BUFFER_SIZE = 256 * 1024;

export const Body = schema(
  {
    x: t.float32(),
    y: t.float32(),
    vx: t.float32(),
    vy: t.float32(),
    hp: t.int32(),
    name: t.string(),
    team: t.uint8(),
    alive: t.boolean(),
  },
  "Body",
);
export const World = schema({ bodies: t.map(Body) }, "World");

export const body = (i) =>
  Object.assign(new Body(), {
    x: (i * 37) % 100,
    y: (i * 53) % 100,
    vx: 1.5,
    vy: 2.5,
    hp: 100,
    name: `body ${i}`,
    team: i % 4,
    alive: true,
  });

export function move(bodies) {
  for (const each of bodies) {
    each.x += 0.3713;
    each.y += 0.1117;
  }
}
