import { readJson } from "masscomm-client";
import { UserManager, WebStorageStateStore, type User } from "oidc-client-ts";
import { ref } from "vue";
import { i18n } from "../i18n";
import { useClubs } from "../lib/club";
import { forgetAll } from "../lib/kept";
import { claimsOf, clubsOf, scopesOf } from "../lib/roles";
import type { Scope } from "./types";

/** The file console.json at the page's address: the issuer at which people sign in. */
interface Settings {
  issuer: string;
  client_id: string;
  /** The registered address of this page. */
  redirect_uri: string;
  /** The names of the claims with the person's roles and clubs; by default `roles` and `clubs`. */
  roles_claim?: string;
  clubs_claim?: string;
  /** By default `openid`; with `offline_access`, an issuer gives refresh tokens. */
  scope?: string;
}

/** A person who signed in. */
export interface Session {
  /** The access token for the API. */
  token: string;
  person: string;
  name: string;
  scopes: ReadonlySet<Scope>;
  /** Whether the token is no longer valid. The page stays as it is until the person signs in again. */
  ended: boolean;
}

export const session = ref<Session | null>(null);
/** The reason why the last sign-in failed; null if it did not. */
export const signInError = ref<unknown>(null);

let manager: UserManager | null = null;
let settings: Settings | null = null;

/** Return whether the person's roles have a scope. */
export const may = (scope: Scope): boolean => session.value?.scopes.has(scope) ?? false;

/**
 * Complete a sign-in whose answer is in the address, or continue that of this tab. Returns the path at which the person
 * was before; null if no sign-in was completed.
 */
export async function startSession(): Promise<string | null> {
  const answer = new URLSearchParams(location.search);
  const answered = answer.has("state") && (answer.has("code") || answer.has("error"));
  try {
    const manager = await connected();
    if (!answered) {
      use(await manager.getUser());
      return null;
    }
    const user = await manager.signinRedirectCallback(location.href);
    use(user);
    return typeof user.state === "string" ? user.state : null;
  } catch (error) {
    signInError.value = error;
    return null;
  } finally {
    // A code is valid once, so it does not stay in the address.
    if (answered) history.replaceState(history.state, "", location.pathname + location.hash);
  }
}

/** Go to the issuer's page. The person returns to this page of the console. */
export async function signIn(): Promise<void> {
  signInError.value = null;
  try {
    const manager = await connected();
    if (settings && new URL(settings.redirect_uri).origin !== location.origin) location.assign(settings.redirect_uri);
    else await manager.signinRedirect({ state: location.hash.slice(1), ui_locales: i18n.global.locale.value });
  } catch (error) {
    signInError.value = error;
  }
}

export async function signOut(): Promise<void> {
  session.value = null;
  forgetAll();
  // An issuer with sessions of its own ends them, too.
  const endpoint = await manager?.metadataService.getEndSessionEndpoint().catch(() => undefined);
  await (endpoint ? manager?.signoutRedirect() : manager?.removeUser());
}

/** Note that the API no longer accepts the token. */
export function endSession(): void {
  if (session.value) session.value.ended = true;
}

async function connected(): Promise<UserManager> {
  if (manager) return manager;
  const response = await fetch("console.json", { cache: "no-cache", credentials: "omit" });
  if (!response.ok) throw new Error(`console.json: HTTP ${response.status}`);
  settings = readJson(await response.text()) as Settings;
  // Tokens and PKCE's verifiers are kept until the tab is closed. The library's default for verifiers is localStorage.
  const store = new WebStorageStateStore({ store: sessionStorage, prefix: "masscomm." });
  manager = new UserManager({
    authority: settings.issuer,
    client_id: settings.client_id,
    redirect_uri: settings.redirect_uri,
    post_logout_redirect_uri: settings.redirect_uri,
    response_type: "code",
    scope: settings.scope ?? "openid",
    automaticSilentRenew: false,
    monitorSession: false,
    loadUserInfo: false,
    userStore: store,
    stateStore: store,
  });
  manager.events.addAccessTokenExpiring(renew);
  manager.events.addUserLoaded(use);
  manager.events.addAccessTokenExpired(endSession);
  return manager;
}

/** Get the next access token a minute before the end of the present one, if the page is seen and the issuer permits it. */
async function renew(): Promise<void> {
  const user = await manager?.getUser();
  if (!user?.refresh_token || document.visibilityState !== "visible") return;
  try {
    await manager?.signinSilent();
  } catch (error) {
    // The page says so when the present token ends.
    console.warn("the access token was not renewed", error);
  }
}

function use(user: User | null): void {
  if (!user) return;
  const claims = claimsOf(user.id_token!);
  useClubs(clubsOf(claims[settings?.clubs_claim ?? "clubs"]));
  session.value = {
    token: user.access_token,
    person: String(claims.sub),
    name: String(claims.name ?? claims.sub),
    scopes: scopesOf(claims[settings?.roles_claim ?? "roles"]),
    ended: user.expired ?? false,
  };
}
