import { fileURLToPath } from "node:url";
import vue from "@vitejs/plugin-vue";
import { defineConfig } from "vitest/config";

// The gateway of a running stack, for `npx vite`.
const gateway = process.env.MASSCOMM_API_URL ?? "http://127.0.0.1:8080";

const client = fileURLToPath(new URL("../sdk/typescript", import.meta.url));

export default defineConfig({
  plugins: [vue()],
  // The client of this checkout, from its source (tsconfig.json has the same path).
  resolve: { alias: { "masscomm-client": `${client}/src/index.ts` } },
  // Relative addresses: the same files work below any path.
  base: "./",
  build: {
    // Small files as data: addresses would need an exception in the Content-Security-Policy.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
  },
  server: { host: "127.0.0.1", proxy: { "/v1": gateway }, fs: { allow: [".", client] } },
  // The text of stylesheets is tested.
  test: { include: ["src/**/*.test.ts"], css: true, pool: "threads" },
});
