import { createApp } from "vue";
import App from "./App.vue";
import { startSession } from "./api/session";
import "./design/tokens.css";
import "./design/base.css";
import { i18n } from "./i18n";
import { router } from "./router";
import { applyTheme } from "./lib/theme";

applyTheme();
void startSession().then(async (path) => {
  const app = createApp(App).use(i18n).use(router);
  if (path) await router.replace(path);
  // The header is about the open page, so that it waits for the first one; after an error, it is there alone.
  await router.isReady().finally(() => app.mount("#app"));
});
