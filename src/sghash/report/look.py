"""How a page looks: one style sheet for light and dark, wide and narrow."""

from __future__ import annotations

from sghash.colours import (
    DARK_FAINT,
    DARK_GRID,
    DARK_INK,
    DARK_PAPER,
    FAINT,
    GRID,
    INK,
    PAPER,
    method_style,
)

_ACCENT = method_style("SGH").colour
_RIVAL = method_style("ITQ").colour

STYLE = f""":root {{
  color-scheme: light dark;
  --ink: {INK}; --faint: {FAINT}; --grid: {GRID}; --paper: {PAPER}; --shade: #f4f5f7;
}}
@media (prefers-color-scheme: dark) {{
  :root {{
    --ink: {DARK_INK}; --faint: {DARK_FAINT}; --grid: {DARK_GRID}; --paper: {DARK_PAPER};
    --shade: #1d2026;
  }}
}}
* {{ box-sizing: border-box; }}
body {{
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  -webkit-text-size-adjust: 100%;
}}
main {{ max-width: 54rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; overflow-wrap: anywhere; }}
h1 {{ font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.015em; }}
h2 {{
  font-size: 1.3rem; line-height: 1.3; margin: 3rem 0 .6rem; padding-top: .8rem;
  border-top: 1px solid var(--grid);
}}
p {{ margin: .6rem 0; max-width: 44rem; }}
.summary {{ font-size: 1.1rem; color: var(--faint); }}
nav {{ display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; margin: 1rem 0 0; font-size: .92rem; }}
a {{ color: inherit; text-decoration-color: var(--faint); text-underline-offset: .2em; }}
code, pre {{ font: .9em/1.45 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
code {{ background: var(--shade); border-radius: 4px; padding: .1em .3em; }}
pre {{ background: var(--shade); border-radius: 8px; padding: .8rem 1rem; overflow-x: auto; }}
pre code {{ background: none; padding: 0; overflow-wrap: normal; }}
figure {{ margin: 1.2rem 0; }}
.pictures {{ display: flex; flex-wrap: wrap; gap: 1rem 1.2rem; }}
.picture {{ flex: 0 1 auto; min-width: 0; max-width: 100%; }}
.picture svg, .picture img {{ display: block; max-width: 100%; height: auto; }}
figcaption, caption {{
  color: var(--faint); font-size: .9rem; text-align: left; margin-top: .5rem; max-width: 44rem;
}}
caption {{ caption-side: bottom; padding-top: .5rem; margin: 0; }}
.table {{ overflow-x: auto; margin: 1rem 0; overflow-wrap: normal; }}
table {{ border-collapse: collapse; font-size: .93rem; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: left; padding: .38rem 1.3rem .38rem 0; vertical-align: top; }}
th {{ color: var(--faint); font-weight: 600; border-bottom: 1px solid var(--faint); }}
td {{ border-bottom: 1px solid var(--grid); }}
th.number, td.number {{ text-align: right; white-space: nowrap; }}
td.long {{ min-width: 13rem; }}
.swatch {{
  display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin-right: .55em;
}}
dl {{ margin: 1rem 0; }}
dt {{ font-weight: 600; margin-top: .7rem; }}
dd {{ margin: .1rem 0 0; color: var(--faint); max-width: 44rem; }}
.verdict {{
  background: var(--shade); border-left: 4px solid var(--faint); border-radius: 0 8px 8px 0;
  padding: .35rem 1rem; margin: 1rem 0;
}}
.verdict p {{ margin: .35rem 0; }}
.verdict.agrees {{ border-color: {_RIVAL}; }}
.verdict.differs {{ border-color: {_ACCENT}; }}
.mark {{
  border: 1px solid currentColor; border-radius: 1em; padding: .05em .6em; margin-right: .4em;
  font-size: .82em; white-space: nowrap;
}}
.method {{ white-space: nowrap; }}
@media (max-width: 40rem) {{
  /* A wide figure keeps a readable size and scrolls in its own frame. */
  .wide {{ overflow-x: auto; }}
  .wide svg, .wide img {{ max-width: none; width: 38rem; }}
  main {{ padding: 1.5rem 1rem 3rem; }}
  h1 {{ font-size: 1.6rem; }}
  th, td {{ padding-right: .9rem; }}
}}
@media print {{ h2 {{ break-after: avoid; }} figure, .table {{ break-inside: avoid; }} }}
"""
