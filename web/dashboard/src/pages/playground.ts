// Test players: join a room, send its messages, watch the answers, and simulate a bad network.

import { get, type KindInfo, type RoomInfo, type Settings } from "../api";
import type { Page } from "../page";
import { field, reasonOf } from "../ui/dialog";
import { fill, h } from "../ui/dom";
import { MessageForm } from "../ui/form";
import { card, heading, loading, nothing } from "../ui/parts";
import { TestPlayer } from "./test_player";

const PLAYERS_MAX = 8;

// They stay connected while other pages are open, so that their sessions can be inspected there.
const players = h("div", { class: "test-players" });

export const playground: Page = (root, room_id) => {
  const form = h("div", null, loading());
  root.append(heading("Playground"), h("div", { class: "play" }, card("New test player", form), players));
  showHint();
  void Promise.all([
    get<Settings>("/v1/settings"),
    get<{ kinds: KindInfo[] }>("/v1/kinds"),
    get<{ rooms: RoomInfo[] }>("/v1/rooms", { where: "open_seats > 0", limit: 50 }),
  ]).then(
    ([settings, { kinds }, { rooms }]) => fill(form, drawForm(settings, kinds, rooms, room_id)),
    (error) => fill(form, h("p", { class: "problem" }, reasonOf(error))),
  );
  return () => {};
};

function drawForm(settings: Settings, kinds: KindInfo[], rooms: RoomInfo[], room_id: string): HTMLElement {
  const url = h("input", { type: "url", required: true, class: "code", value: addressOf(settings) });
  const where = h(
    "select",
    { onchange: () => showFields() },
    ...kinds.map((each) => h("option", { value: `kind ${each.kind}` }, `${each.kind}: a free seat, or a new room`)),
    ...kinds.map((each) => h("option", { value: `new ${each.kind}` }, `${each.kind}: a new room`)),
    ...rooms.map((each) => h("option", { value: `room ${each.id}`, selected: each.id === room_id }, nameOf(each))),
    h("option", { value: "id" }, "A room by its id or code …"),
  );
  const byId = h("input", { class: "code", value: room_id, autocomplete: "off" });
  if (room_id !== "" && !rooms.some((each) => each.id === room_id)) {
    where.value = "id";
  }
  const idField = field("Id or code of the room", byId);
  const scheme = h("select", { onchange: () => showFields() }, ...settings.auth.map((each) => h("option", null, each)));
  scheme.value = settings.auth.includes("guest") ? "guest" : (settings.auth[0] ?? "");
  const credential = h("input", { type: "password", autocomplete: "off" });
  const credentialField = field("Credential", credential, "The credential for this scheme; empty: a new player.");
  const name = h("input", { maxlength: 64, autocomplete: "off" });
  const options = h("div", null);
  let optionsForm: MessageForm | null = null;
  const showOptions = (): void => {
    const [how = "", ...rest] = where.value.split(" ");
    const kind = how === "room" ? rooms.find((each) => each.id === rest[0])?.kind : rest.join(" ");
    const schema = kinds.find((each) => each.kind === kind)?.options ?? null;
    optionsForm = schema === null ? null : new MessageForm(schema);
    fill(options, optionsForm === null ? null : [h("h3", null, "Options"), optionsForm.element]);
  };
  const problem = h("p", { class: "problem", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Join as a test player");
  const showFields = (): void => {
    idField.hidden = where.value !== "id";
    credentialField.hidden = scheme.value === "guest";
    showOptions();
  };
  showFields();
  const join = async (event: Event): Promise<void> => {
    event.preventDefault();
    problem.textContent = "";
    if (players.querySelectorAll(".test-player").length >= PLAYERS_MAX) {
      problem.textContent = `At most ${PLAYERS_MAX} test players are possible: let one leave first.`;
      return;
    }
    button.disabled = true;
    const [how = "", ...rest] = where.value.split(" ");
    try {
      const player = await TestPlayer.join({
        url: url.value,
        auth: { scheme: scheme.value, credential: credential.value },
        how,
        target: how === "id" ? byId.value.trim() : rest.join(" "),
        name: name.value.trim(),
        options: optionsForm?.value(),
        kinds,
        gone: () => showHint(),
      });
      players.prepend(player.element);
      showHint();
    } catch (error) {
      problem.textContent = `${reasonOf(error)} ${originHint(settings)}`;
    }
    button.disabled = false;
  };
  return h(
    "form",
    { class: "form", onsubmit: join },
    field("Server", url),
    field("Room", where),
    idField,
    settings.auth.length > 1 && field("Authentication", scheme),
    credentialField,
    field("Display name", name, "Empty: the player has none."),
    options,
    problem,
    button,
    h(
      "small",
      null,
      "A test player is a real session over a real WebSocket, with the JavaScript client. It stays connected while you look at other pages, and leaves when you close this tab.",
    ),
  );
}

function nameOf(room: RoomInfo): string {
  return `${room.kind}: ${room.name || room.id} (${room.players} of ${room.max_players})`;
}

/** Where clients connect; if the server listens on every address, the host of this page. */
function addressOf(settings: Settings): string {
  const url = settings.urls.websocket ?? `ws://${location.hostname}:7777`;
  return url.replace(/\/\/(0\.0\.0\.0|\[::\])/, `//${location.hostname}`);
}

function originHint(settings: Settings): string {
  return settings.origins.length === 0 || settings.origins.includes(location.origin)
    ? ""
    : `This page's origin is not allowed. Start the server with --origin ${location.origin}`;
}

function showHint(): void {
  const hasPlayers = players.querySelector(".test-player") !== null;
  players.querySelector(".nothing")?.remove();
  if (!hasPlayers) {
    players.append(
      nothing(
        "No test players yet.",
        "Join as a test player, send messages, cut the connection, and see that nothing is lost.",
      ),
    );
  }
}
