/**
 * A Colyseus server with rooms as in benchmarks/shared_state.py: players who all move at each tick. Prints its port.
 */

import { LocalPresence, Room, Server } from "@colyseus/core";
import { WebSocketTransport } from "@colyseus/ws-transport";
import { body, move, World } from "./world.mjs";

const [players, hz] = process.argv.slice(2).map(Number);

class Arena extends Room {
  maxClients = players;

  onCreate() {
    this.state = new World();
    this.patchRate = 1000 / hz;
    this.setSimulationInterval(() => this.step(), 1000 / hz);
  }

  onJoin(client) {
    this.state.bodies.set(client.sessionId, body(this.state.bodies.size));
  }

  step() {
    move(this.state.bodies.values());
  }
}

const server = new Server({ greet: false, presence: new LocalPresence(), transport: new WebSocketTransport() });
server.define("arena", Arena);
await server.listen(0, "127.0.0.1");
console.log(server.transport.server.address().port);
