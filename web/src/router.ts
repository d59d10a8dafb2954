import { createRouter, createWebHashHistory } from "vue-router";
import { may, session } from "./api/session";
import ComposePage from "./pages/ComposePage.vue";
import SendPage from "./pages/SendPage.vue";
import SendsPage from "./pages/SendsPage.vue";

// The path is behind a #, so that a file server needs no rules for the pages.
export const router = createRouter({
  history: createWebHashHistory(),
  // A new page begins at its top. A change of the query, such as a filter, moves nothing.
  scrollBehavior: (to, from, saved) => saved ?? (to.path === from.path ? false : { top: 0 }),
  routes: [
    { path: "/", name: "compose", component: ComposePage },
    { path: "/sends", name: "sends", component: SendsPage },
    { path: "/sends/:sendId", name: "send", component: SendPage, props: true },
    { path: "/metrics", name: "metrics", component: () => import("./pages/MetricsPage.vue") },
    { path: "/users/:userId?", name: "person", component: () => import("./pages/PersonPage.vue") },
    { path: "/operations/:section?", name: "operations", component: () => import("./pages/OperationsPage.vue"), props: true },
    { path: "/:other(.*)*", redirect: "/" },
  ],
});

// The first page of a person who may not send.
router.beforeEach((to) => (to.name === "compose" && session.value && !may("send") ? { name: "sends" } : true));
