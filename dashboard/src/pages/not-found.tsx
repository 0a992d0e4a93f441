// An address without a page.

import { useHead } from "../head";
import { Empty } from "../parts/states";
import { to } from "../place";
import { words } from "../words";

export default function NotFound() {
  useHead(words.notFound.title, [{ text: words.notFound.title }]);
  return (
    <>
      <div class="head">
        <h1>{words.notFound.title}</h1>
      </div>
      <Empty title={words.notFound.what} text={words.notFound.text}>
        <a class="btn primary" href={to("runs")}>
          {words.nav.runs}
        </a>
        <a class="btn" href={to("")}>
          {words.nav.home}
        </a>
      </Empty>
    </>
  );
}
