/** The address of the icon, relative to the page: the console works below any path. */
export const ICON = "icon.svg";
