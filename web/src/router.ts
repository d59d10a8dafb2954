import { createRouter, createWebHashHistory } from "vue-router";
import { may, session } from "./api/session";
import { instead } from "./lib/pages";
import OverviewPage from "./pages/OverviewPage.vue";
import SendPage from "./pages/SendPage.vue";
import SendsPage from "./pages/SendsPage.vue";

// The path is behind a #, so that a file server needs no rules for the pages.
export const router = createRouter({
  history: createWebHashHistory(),
  // A new page begins at its top. A change of the query, such as a filter, moves nothing.
  scrollBehavior: (to, from, saved) => saved ?? (to.path === from.path ? false : { top: 0 }),
  routes: [
    { path: "/", name: "overview", component: OverviewPage },
    { path: "/compose", name: "compose", component: () => import("./pages/ComposePage.vue") },
    { path: "/sends", name: "sends", component: SendsPage },
    { path: "/sends/:sendId", name: "send", component: SendPage, props: true },
    { path: "/schedules", name: "schedules", component: () => import("./pages/SchedulesPage.vue") },
    { path: "/audiences", name: "audiences", component: () => import("./pages/AudiencesPage.vue") },
    { path: "/templates/:name?", name: "templates", component: () => import("./pages/TemplatesPage.vue") },
    { path: "/categories/:name?", name: "categories", component: () => import("./pages/CategoriesPage.vue"), props: true },
    { path: "/metrics", name: "metrics", component: () => import("./pages/MetricsPage.vue") },
    { path: "/users/:userId?", name: "person", component: () => import("./pages/PersonPage.vue") },
    { path: "/events/:section?", name: "events", component: () => import("./pages/EventsPage.vue"), props: true },
    { path: "/operations/webhooks", redirect: "/events/endpoints" },
    { path: "/operations/:section?", name: "operations", component: () => import("./pages/OperationsPage.vue"), props: true },
    { path: "/:other(.*)*", redirect: "/" },
  ],
});

// A page or section that the person's roles do not permit is not opened; the API would refuse its requests.
router.beforeEach((to) => (session.value && instead(to.name, to.params.section, may)) ?? true);
