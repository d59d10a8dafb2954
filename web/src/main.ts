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
  app.mount("#app");
});
