import "./styles/index.css";
import { render } from "preact";
import { App, fetchPage } from "./app";
import { startClock } from "./clock";
import { startKeys } from "./keys";
import { startLive } from "./live";
import { fixBase } from "./place";
import { meet } from "./session";
import { showTheme } from "./settings";

fixBase();
showTheme();
startClock();
startLive();
startKeys();
fetchPage();
void meet();
const place = document.getElementById("app");
if (place) render(<App />, place);
