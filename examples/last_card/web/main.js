// The table's page. `holdfast serve --web` provides the client at /holdfast.js and the game's address at /holdfast.json.
import { connect } from "/holdfast.js";

const SUITS = { C: "♣", D: "♦", H: "♥", S: "♠" };
const $ = (selector) => document.querySelector(selector);
const watched = new URLSearchParams(location.search).get("watch");
const show = (text) => {
  $("#status").textContent = text;
};

function drawCard(made, card) {
  made.textContent = card ? (card[0] === "T" ? "10" : card[0]) + SUITS[card[1]] : "";
  made.className = `card ${"DH".includes(card[1]) ? "red" : ""}`;
  made.dataset.card = card;
  return made;
}

function drawPlayer(id, player, turn, me) {
  const line = document.createElement("li");
  line.textContent = `${player.name}${id === me ? " (you)" : ""}${player.is_bot ? ", bot" : ""}: ${player.cards}`;
  line.classList.toggle("turn", id === turn);
  line.classList.toggle("away", !player.is_here);
  return line;
}

function describe({ turn, turn_ends_at, winner, spectators }, players, me) {
  const watching = spectators ? ` ${spectators} watching.` : "";
  if (!turn) {
    const isFull = Object.keys(players).length === 4;
    const next = isFull ? "Waiting for everybody's rematch." : "Waiting for players; bots come soon.";
    return `${winner ? `${winner} wins! ` : ""}${next}${watching}`;
  }
  const who = turn === me ? "It is your turn" : `${players[turn]?.name} plays`;
  return `${who} (${Math.max(0, Math.ceil(turn_ends_at - Date.now() / 1000))} s).${watching}`;
}

function fits(card, top) {
  return card[0] === top[0] || card[1] === top[1];
}

async function play(name) {
  const { url } = await (await fetch("/holdfast.json")).json();
  const session = await connect(url, { name });
  sessionStorage.setItem("last_card.name", name);
  session.on("drop", () => show("Connection lost; reconnecting …"));
  session.on("close", (error) => show(`Session ended: ${error.message}`));

  // After a page refresh the session still has its seat, or watches still.
  const room = watched
    ? (session.spectating ?? (await session.spectate(watched)))
    : (session.room ?? (await session.joinOrCreate("last_card")));
  const me = session.playerId;

  const status = () => room.state && show(describe(room.state, room.players, me));
  const draw = () => {
    const { state, players, mine } = room;
    if (!state) return; // it has not come yet
    const isMine = state.turn === me;
    const top = state.pile.at(-1) ?? "";
    $("#hand").replaceChildren(
      ...(mine?.hand ?? []).map((card) => {
        const button = drawCard(document.createElement("button"), card);
        button.disabled = !isMine || !fits(card, top);
        button.onclick = () => room.send("play", { card });
        return button;
      }),
    );
    $("#players").replaceChildren(...Object.entries(players).map(([id, each]) => drawPlayer(id, each, state.turn, me)));
    drawCard($("#top"), top);
    $("#draw").disabled = !isMine;
    $("#rematch").hidden = state.turn !== "" || mine?.wants_rematch !== false;
    status();
  };
  room.onChange(draw);
  draw();
  room.on("cheered", ({ name: from, text }) => {
    $("#cheered").textContent = `${from}: ${text}`;
  });
  room.on("holdfast.refused", ({ message }) => show(message));
  room.on("holdfast.left", ({ reason, message }) => show(`You left the table: ${message || reason}`));

  setInterval(() => room.state?.turn && status(), 1000);
  $("#draw").onclick = async () => {
    try {
      // Answered once, also if the connection breaks in between.
      const { card } = await room.ask("draw", {});
      if (card) show(`You drew ${drawCard(document.createElement("span"), card).textContent}.`);
    } catch (error) {
      show(error.message); // the time was up, for example
    }
  };
  $("#rematch").onclick = () => room.send("rematch", {});
  $("#cut").onclick = () => session.cut();
  $("#cheer").onsubmit = (event) => {
    event.preventDefault();
    const { text } = event.target.elements;
    if (text.value.trim()) room.send("cheer", { text: text.value });
    text.value = "";
  };
  $("#mine").hidden = Boolean(watched);
  $("#watch").href = `?watch=${room.id}`;
  $("#table").hidden = false;
}

function begin(name) {
  $("#enter").hidden = true;
  play(name).catch((error) => {
    show(`Error: ${error.message}`);
    // Another name may be allowed.
    if (error.problem === "name_not_allowed") $("#enter").hidden = false;
  });
}

$("#enter").onsubmit = (event) => {
  event.preventDefault();
  begin(event.target.elements.name.value);
};

const known = sessionStorage.getItem("last_card.name");
if (known || watched) {
  begin(known ?? "Guest");
} else {
  show("Who are you?");
  $("#enter").hidden = false;
}
