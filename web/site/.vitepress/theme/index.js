// The default theme with the fonts of the system.
import "./diagrams.css";

export { default } from "vitepress/theme-without-fonts";
