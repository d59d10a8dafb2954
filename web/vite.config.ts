import vue from "@vitejs/plugin-vue";
import { defineConfig } from "vitest/config";

// The gateway of a running stack, for `npx vite`.
const gateway = process.env.MASSCOMM_API_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [vue()],
  // Relative addresses: the same files work below any path.
  base: "./",
  build: {
    // Small files as data: addresses would need an exception in the Content-Security-Policy.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
  },
  server: { host: "127.0.0.1", proxy: { "/v1": gateway } },
  // The text of stylesheets is tested.
  test: { include: ["src/**/*.test.ts"], css: true },
});
