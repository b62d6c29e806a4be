import { VERSION } from "holdfast";

document.body.append(`Holdfast ${VERSION}`);
