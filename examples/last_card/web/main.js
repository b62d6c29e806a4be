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

function drawPlayer(player, turn, me) {
  const line = document.createElement("li");
  const name = `${player.name}${player.id === me ? " (you)" : ""}`;
  line.textContent = `${name}${player.is_bot ? ", bot" : ""}: ${player.cards}`;
  line.classList.toggle("turn", player.id === turn);
  line.classList.toggle("away", !player.is_here);
  return line;
}

function describe({ phase, turn, endsAt, players, winner, spectators }, me) {
  const watching = spectators ? ` ${spectators} watching.` : "";
  if (phase === "lobby") {
    const over = winner ? `${winner} wins! ` : "";
    return `${over}${players.length < 4 ? "Waiting for players; bots come soon." : "Waiting for everybody's rematch."}${watching}`;
  }
  const who = turn === me ? "It is your turn" : `${players.find((each) => each.id === turn)?.name} plays`;
  const seconds = Math.max(0, Math.ceil((endsAt - Date.now()) / 1000));
  return `${who} (${seconds} s).${watching}`;
}

function fits(card, top) {
  return card[0] === top[0] || card[1] === top[1];
}

async function play(name) {
  const { url } = await (await fetch("/holdfast.json")).json();
  const session = await connect(url, { name });
  session.on("drop", () => show("Connection lost; reconnecting …"));
  session.on("close", (error) => show(`Session ended: ${error.message}`));

  // After a page refresh the session still has its seat, or watches still.
  const room = watched
    ? (session.spectating ?? (await session.spectate(watched)))
    : (session.room ?? (await session.joinOrCreate("last_card")));
  let cards = [];
  let table = { phase: "lobby", turn: "", top: "", players: [] };

  const draw = () => {
    const isMine = table.phase === "playing" && table.turn === session.playerId;
    $("#hand").replaceChildren(
      ...cards.map((card) => {
        const button = drawCard(document.createElement("button"), card);
        button.disabled = !isMine || !fits(card, table.top);
        button.onclick = () => room.send("play", { card });
        return button;
      }),
    );
    $("#players").replaceChildren(...table.players.map((each) => drawPlayer(each, table.turn, session.playerId)));
    drawCard($("#top"), table.top);
    $("#draw").disabled = !isMine;
    const mine = table.players.find((each) => each.id === session.playerId);
    $("#rematch").hidden = table.phase === "playing" || mine?.wants_rematch !== false;
    show(describe(table, session.playerId));
  };
  room.on("hand", (hand) => {
    cards = hand.cards;
    draw();
  });
  room.on("table", (told) => {
    table = { ...told, endsAt: Date.now() + 1000 * (told.turn_s ?? 0) };
    draw();
  });
  room.on("cheered", ({ name: from, text }) => {
    $("#cheered").textContent = `${from}: ${text}`;
  });
  room.on("holdfast.refused", ({ message }) => show(message));
  room.on("holdfast.left", ({ reason, message }) => show(`You left the table: ${message || reason}`));

  setInterval(() => table.phase === "playing" && show(describe(table, session.playerId)), 1000);
  $("#draw").onclick = async () => {
    // Answered once, also if the connection breaks in between.
    const { card } = await room.ask("draw", {});
    if (card) show(`You drew ${drawCard(document.createElement("span"), card).textContent}.`);
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
  play(name).catch((error) => show(`Error: ${error.message}`));
}

const known = sessionStorage.getItem("last_card.name");
if (known || watched) {
  begin(known ?? "Guest");
} else {
  show("Who are you?");
  $("#enter").hidden = false;
  $("#enter").onsubmit = (event) => {
    event.preventDefault();
    const name = event.target.elements.name.value;
    sessionStorage.setItem("last_card.name", name);
    begin(name);
  };
}
