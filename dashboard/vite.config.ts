import preact from "@preact/preset-vite";
import { defineConfig } from "vitest/config";

// Addresses in the built files are relative: the server may be mounted below any path.
export default defineConfig({
  base: "./",
  plugins: [preact()],
  build: {
    outDir: "../src/stepwell/http/dashboard_files",
    emptyOutDir: true,
    assetsInlineLimit: 0, // an inlined file would be a data: address, which the policy of the server refuses
    modulePreload: { polyfill: false },
    target: "es2022",
    // light-dark() stays as it is: rewritten for older browsers, a part of a page could not have a scheme of its own.
    cssTarget: ["chrome125", "firefox128", "safari18"],
  },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"] },
});
