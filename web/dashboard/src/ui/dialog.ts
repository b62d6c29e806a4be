// Confirmation dialogs, and short messages about the result of an action.

import { Problem } from "../api";
import { type Child, fill, h } from "./dom";

export interface Question {
  title: string;
  text: Child;
  /** The label of the button: the action, not "OK". */
  action: string;
  isDangerous?: boolean;
  fields?: Child;
}

/** Ask; returns the form's data, or null after Cancel or Escape. */
export function confirm(question: Question): Promise<FormData | null> {
  return new Promise((answer) => {
    const form = h(
      "form",
      { method: "dialog", class: "dialog" },
      h("h2", null, question.title),
      h("div", { class: "dialog-text" }, question.text),
      question.fields,
      h(
        "div",
        { class: "buttons end" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        h("button", { type: "submit", class: question.isDangerous ? "danger" : "primary" }, question.action),
      ),
    );
    let told: FormData | null = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      told = new FormData(form);
      dialog.close();
    });
    const dialog = h("dialog", { "aria-label": question.title }, form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      answer(told);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A field of a dialog. */
export function field(label: string, input: HTMLElement, hint = ""): HTMLElement {
  return h("label", { class: "field" }, h("span", null, label), input, hint !== "" && h("small", null, hint));
}

const shown = h("div", { class: "toasts", role: "status", "aria-live": "polite" });

/** Show the result of an action. */
export function say(text: string, isBad = false): void {
  if (!shown.isConnected) {
    document.body.append(shown);
  }
  const line = h("div", { class: isBad ? "toast bad" : "toast" }, text);
  shown.append(line);
  setTimeout(() => line.remove(), isBad ? 8000 : 4000);
}

/** Run an action, show its result, and return whether it succeeded. */
export async function attempt(work: () => Promise<unknown>, done: string): Promise<boolean> {
  try {
    await work();
    say(done);
    return true;
  } catch (error) {
    say(reasonOf(error), true);
    return false;
  }
}

export function reasonOf(error: unknown): string {
  const text = error instanceof Problem || error instanceof Error ? error.message : String(error);
  return text === "" ? "The action failed." : `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** Show an error in place of the content. An unreachable server is reported above all pages. */
export function showProblem(place: Element, error: unknown): void {
  if (!(error instanceof Problem) || error.status !== 0) {
    fill(place, h("p", { class: "problem" }, reasonOf(error)));
  }
}
