import { createApp } from "vue";
import App from "./App.vue";
import "./design/tokens.css";
import "./design/base.css";
import { i18n } from "./i18n";
import { router } from "./router";
import { applyTheme } from "./lib/theme";

applyTheme();
createApp(App).use(i18n).use(router).mount("#app");
