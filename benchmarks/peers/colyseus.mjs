/** The benchmarks' game on Colyseus. A dropped player's seat is held with `allowReconnection`. */

import { LocalPresence, Room, Server } from "@colyseus/core";
import { WebSocketTransport } from "@colyseus/ws-transport";
import { game, serve } from "./lines.mjs";
import { body, move, World } from "./world.mjs";

const TEXT = "x".repeat(32);

class Arena extends Room {
  maxClients = game.seats;

  onCreate() {
    this.onMessage("say", (client, message) => client.send("say", message));
    if (game.shares) {
      this.state = new World();
      this.patchRate = 1000 / game.hz;
    }
    if (game.hz) this.setSimulationInterval(() => this.step(), 1000 / game.hz);
  }

  onJoin(client) {
    if (game.shares) this.state.bodies.set(client.sessionId, body(this.state.bodies.size));
  }

  onDrop(client) {
    this.allowReconnection(client, game.grace_s);
  }

  step() {
    if (game.shares) move(this.state.bodies.values());
    for (let i = 0; i < game.broadcasts; i++) this.broadcast("moved", { text: TEXT });
  }
}

const server = new Server({ greet: false, presence: new LocalPresence(), transport: new WebSocketTransport() });
server.define("arena", Arena);
await server.listen(0, "127.0.0.1");
serve(server.transport.server.address().port);
