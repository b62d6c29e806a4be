/** The demo: sail, break things, and see that nothing is lost or duplicated. */

import { type ClientRoom, type ClientSession, connect, type Outcome } from "holdfast";
import { Game, type Place } from "./game";
import { change, crash, forgetLink, type Link, openLink, type Status, status } from "./harbor";
import { Helm } from "./helm";
import { type ArenaMessages, arenaVersion } from "./messages";
import { watchNodes } from "./nodes";
import { byId, duration, figures, notice, ships, tell } from "./panel";
import { Sea } from "./sea";

const STEER_MS = 50;
const PANEL_MS = 250;
const STATUS_MS = 500;
const LAG_MS = 150;

const game = new Game(sessionStorage);
const canvas = byId<HTMLCanvasElement>("sea");
const sea = new Sea(canvas, game);
const helm = new Helm(canvas, sea.toSea);

let link: Link;
let session: ClientSession;
let room: ClientRoom<ArenaMessages> | null = null;
let isPlugged = true;
let server: Status | null = null;
let droppedAt: number | null = null;
/** When reconnecting became possible: plugged in again, or the server is up. The resume is timed from then. */
let openSince = 0;
const figure = { replayed: 0, drops: 0, backMs: null as number | null, rttMs: 0 };

async function begin(): Promise<void> {
  link = await openLink();
  const up = await serverUp();
  server = up;
  showDashboard(up);
  session = await connect(link.url, { afterRefresh: "replay" });
  if (link.isOld && session.outcome?.kind === "new") {
    // A duplicated tab has copied the first one's link.
    session.close();
    forgetLink();
    return begin();
  }
  if (up.has_nodes) watchNodes(link.link, () => session.id);
  session.on("drop", dropped);
  session.on("message", ({ type, body }) => {
    if (type === "holdfast.announcement") tell(String(body.text));
  });
  session.on("resume", resumed);
  session.on("close", (error) => ended(`The session has ended: ${error.message}`));
  const seat = session.roomAs<ArenaMessages>();
  if (seat !== null) {
    const replayed = session.outcome?.replayed ?? 0;
    figure.replayed += replayed;
    tell(`This page was reloaded: same ship, ${messages(replayed)} replayed.`, "good");
    take(seat);
  } else {
    await join();
  }
}

/** In a cluster it is that of a node that is up. */
function showDashboard({ dashboard }: Status): void {
  byId("dashboard").hidden = !dashboard;
  byId<HTMLAnchorElement>("dashboard").href = dashboard;
}

/** A new session does not retry: wait until the server has restarted. */
async function serverUp(): Promise<Status> {
  while (true) {
    const now = await status();
    if (now.pid !== null) return now;
    notice("The server was killed. Restarting …", "bad");
    await new Promise((resolve) => setTimeout(resolve, STATUS_MS));
  }
}

async function join(): Promise<void> {
  game.forget();
  take(await session.join<ArenaMessages>(server?.room ?? "", { messageVersion: arenaVersion }));
  tell("You have a ship. Sail for a coin, then break something.");
}

function take(seat: ClientRoom<ArenaMessages>): void {
  room = seat;
  game.follow(seat);
  seat.on("holdfast.refused", ({ message }) => tell(`The room refused a command: ${message}`, "bad"));
  seat.on("holdfast.left", ({ reason }) => ended(`Your seat was freed: ${reason}`));
  notice("");
}

function dropped(): void {
  figure.drops++;
  droppedAt = performance.now();
  openSince = isPlugged && server?.pid ? droppedAt : 0;
  if (isPlugged) tell("The connection broke. Your seat is held.", "warn");
}

function resumed(outcome: Outcome): void {
  const now = performance.now();
  const awayMs = droppedAt === null ? 0 : now - droppedAt;
  figure.backMs = now - (openSince || now);
  droppedAt = null;
  if (outcome.kind === "reset") {
    tell(`Your session was gone (${outcome.reason}); this is a new one.`, "bad");
    join().catch(failed);
    return;
  }
  figure.replayed += outcome.replayed;
  const what =
    outcome.kind === "resumed" ? `${messages(outcome.replayed)} replayed` : "caught up with the current state";
  tell(`Back after ${duration(awayMs)}: ${what}, ${game.lost} lost, ${game.duplicated} duplicated.`, "good");
  notice("");
}

function messages(count: number): string {
  return count === 1 ? "1 message" : `${count.toLocaleString()} messages`;
}

function ended(text: string): void {
  room = null;
  tell(text, "bad");
  notice(`${text}. Reload the page to continue.`, "bad");
}

/** Shows the current problem, or nothing. */
function explain(): void {
  if (room === null || session.connected) return;
  const away = droppedAt === null ? "" : duration(performance.now() - droppedAt);
  if (!isPlugged) notice(`Unplugged for ${away}. Keep sailing: your commands are sent when you reconnect.`, "warn");
  else if (server === null) notice("The demo has ended. Start it again with: holdfast demo", "bad");
  else if (server.pid === null) {
    notice(server.has_nodes ? "All nodes were killed. Restarting …" : "The server was killed. Restarting …", "bad");
  } else notice(`Reconnecting … ${away}`, "warn");
}

async function watchServer(): Promise<void> {
  const before = server;
  try {
    server = await status();
  } catch {
    server = null;
  }
  if (server?.has_nodes) {
    showDashboard(server);
    if (server.pid && !before?.pid && droppedAt !== null && isPlugged) openSince = performance.now();
  } else if (server?.pid && before?.pid !== server.pid) {
    if (droppedAt !== null && isPlugged) openSince = performance.now();
    if (before !== null) {
      tell(`The server is up again after ${server.back_after_s.toFixed(1)} s, as process ${server.pid}.`);
    }
  }
}

// Buttons

let changes = Promise.resolve();

/** One after the other: two clicks must not overtake each other. */
function request(what: Parameters<typeof change>[1]): Promise<void> {
  changes = changes.then(() => change(link.link, what)).catch(failed);
  return changes;
}

byId("plug").addEventListener("click", async () => {
  isPlugged = !isPlugged;
  const button = byId("plug");
  button.setAttribute("aria-pressed", `${!isPlugged}`);
  button.replaceChildren(
    line("b", isPlugged ? "Pull the plug" : "Plug it in"),
    line("small", isPlugged ? "cut this page’s connection" : "let it reconnect"),
  );
  if (isPlugged) openSince = performance.now();
  else tell("You pulled the plug: this page’s connection is reset.", "warn");
  await request({ is_plugged: isPlugged });
  // As the browser does for a real network.
  if (isPlugged) dispatchEvent(new Event("online"));
});

let isSlow = false;
byId("lag").addEventListener("click", async () => {
  isSlow = !isSlow;
  byId("lag").setAttribute("aria-pressed", `${isSlow}`);
  tell(isSlow ? `Everything takes ${LAG_MS} ms longer, each way.` : "The lag is gone.");
  await request({ delay_ms: isSlow ? LAG_MS : 0 });
});

byId("crash").addEventListener("click", async () => {
  const pid = server?.pid;
  if (!pid) return;
  tell(`kill -9 ${pid}: the server was killed.`, "bad");
  await crash().catch(failed);
});

byId("another").addEventListener("click", () => {
  // Without an opener the new tab has its own storage: another player, not this one again.
  window.open(location.href, "_blank", "noopener");
});

function line(tag: "b" | "small", text: string): HTMLElement {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}

// Main loop

setInterval(() => {
  const place = game.place;
  const course = place === null ? null : helm.course(place);
  if (room !== null && course !== null) sail(room, course);
}, STEER_MS);

function sail(to: ClientRoom<ArenaMessages>, course: Place): void {
  const steer = game.steer(course);
  // If the seat is gone instead, its next holder counts from zero.
  to.send("steer", steer).then(
    () => to === room && game.taken(steer),
    () => {},
  );
}

setInterval(() => {
  if (session !== undefined) figure.rttMs = session.latencyMs;
  figures(game, figure);
  ships(game);
  explain();
}, PANEL_MS);

setInterval(watchServer, STATUS_MS);

function frame(now: number): void {
  sea.draw(now, room !== null && session.connected);
  requestAnimationFrame(frame);
}
requestAnimationFrame(frame);

// Restored from the back/forward cache: its session was abandoned, and a reload resumes it.
addEventListener("pageshow", ({ persisted }) => persisted && location.reload());

begin().catch(failed);

function failed(error: unknown): void {
  const text = error instanceof Error ? error.message : `${error}`;
  tell(`The game could not start: ${text}`, "bad");
  notice(`The game could not start: ${text}. Check that \`holdfast demo\` is running, then reload the page.`, "bad");
}
