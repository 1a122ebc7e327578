"""Style and script of the report: no font, no picture, no library, no network.

Colours are laid over the page with opacity, so the same rules serve light and dark pages. Words against the prediction
are also underlined, so that a grey print still shows the sign.
"""

from __future__ import annotations

from .palette import AGAINST, FOR, OPACITY, UNSIGNED


def _rgba(colour: tuple[int, int, int], opacity: float) -> str:
    return f"rgba({colour[0]},{colour[1]},{colour[2]},{opacity:g})"


def _rgb(colour: tuple[int, int, int]) -> str:
    return f"rgb({colour[0]},{colour[1]},{colour[2]})"


def _level_rules() -> str:
    rules = []
    for letter, colour in (("p", FOR), ("n", AGAINST), ("u", UNSIGNED)):
        for level, opacity in enumerate(OPACITY):
            if level:
                line = f";box-shadow:inset 0 -{1 + level // 2}px {_rgb(colour)}" if letter == "n" else ""
                rules.append(f".acf .{letter}{level}{{background:{_rgba(colour, opacity)}{line}}}")
    return "\n".join(rules)


# What a notebook cell and the report share: the words and their colours.
WORDS_CSS = f"""
.acf table.words{{border-collapse:collapse;width:100%}}
.acf table.words th,.acf table.words td{{border:0;background:none;text-align:left;vertical-align:baseline}}
.acf table.words th{{font-weight:600;white-space:nowrap;padding:.2em .9em .2em 0;width:1%}}
.acf table.words td{{padding:.2em 0;line-height:1.75;overflow-wrap:anywhere;unicode-bidi:isolate;white-space:normal}}
.acf i{{font-style:normal;border-radius:.25em;padding:.08em .12em}}
.acf .k{{border-bottom:1px dotted currentColor;opacity:.75}}
{_level_rules()}
""".strip()

PAGE_CSS = f"""
:root{{color-scheme:light dark;--line:#8885;--soft:#8882;--for:{_rgb(FOR)};--against:{_rgb(AGAINST)}}}
*{{box-sizing:border-box}}
body{{font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;margin:0 auto;max-width:68rem;
padding:1.2rem 1.2rem 7rem}}
h1{{font-size:1.4rem;margin:.2rem 0 .6rem}}h2{{font-size:1.1rem;margin:2.2rem 0 .3rem}}
p{{margin:.3rem 0 .7rem}}.note{{opacity:.75;font-size:.9em;max-width:48rem}}
blockquote{{margin:0 0 1rem;padding:.5rem .9rem;border-left:3px solid var(--line);background:var(--soft);
overflow-wrap:anywhere;unicode-bidi:isolate;max-height:14rem;overflow-y:auto}}
dl.facts{{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem;margin:0}}
dl.facts div{{background:var(--soft);border-radius:.5rem;padding:.5rem .8rem}}
dl.facts dt{{font-size:.8em;opacity:.75}}dl.facts dd{{margin:0;font-size:1.15em;font-variant-numeric:tabular-nums}}
.scroll{{overflow-x:auto}}
.two{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,25rem),1fr));gap:0 2.5rem}}
.two>section{{min-width:0}}
table.n{{border-collapse:collapse;font-size:.85em;font-variant-numeric:tabular-nums}}
table.n th,table.n td{{padding:.15em .5em;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}}
table.n tbody th{{text-align:left;position:sticky;left:0;background:Canvas}}
table.m{{border-collapse:collapse;font-size:.75em;font-variant-numeric:tabular-nums}}
table.m th{{font-weight:500;text-align:right;padding:.1em .5em;white-space:nowrap}}
table.m thead th{{writing-mode:vertical-rl;transform:rotate(180deg);text-align:left;padding:.4em .1em}}
table.m td{{min-width:2.7em;text-align:center;padding:.3em .1em;border:1px solid Canvas}}
svg{{display:block;width:100%;max-width:36rem;height:auto;font:11px system-ui,"DejaVu Sans",sans-serif}}
svg text{{fill:currentColor}}svg .a{{stroke:currentColor;stroke-opacity:.35;fill:none}}svg .f{{fill-opacity:.7}}
.head{{margin:.5rem 0}}.head svg{{max-width:none;height:1.3rem;background:var(--soft);color:{_rgb(UNSIGNED)}}}
.head span{{font-size:.85em}}
details{{margin:1rem 0}}summary{{cursor:pointer}}
#tip{{position:fixed;left:0;right:0;bottom:0;background:Canvas;border-top:2px solid var(--line);padding:.5rem 1.2rem;
font-size:.85em;display:none;max-height:40vh;overflow:auto}}
#tip b{{margin-right:1rem}}#tip span{{display:inline-block;margin-right:1rem;font-variant-numeric:tabular-nums}}
.acf.live td i:hover{{outline:2px solid currentColor}}
@media(max-width:640px){{body{{padding:.8rem .8rem 9rem}}svg{{font-size:13px}}
.acf table.words,.acf table.words tbody,.acf table.words tr,
.acf table.words th,.acf table.words td{{display:block;width:auto}}
.acf table.words th{{padding:.5em 0 0;font-size:.85em}}}}
@media print{{#tip{{display:none!important}}}}
""".strip()

# The word under the pointer, or the one last touched, with its score in every method. Text goes in as textContent.
SCRIPT = """
(function(){
var d=JSON.parse(document.getElementById("data").textContent),tip=document.getElementById("tip"),last;
function add(tag,text){var e=document.createElement(tag);e.textContent=text;tip.appendChild(e)}
function show(ev){
var i=ev.target,c=i.parentNode;
if(i.tagName!=="I"||!c.closest||!c.closest(".live"))return;
if(i===last)return;
last=i;
var j=d.player[Array.prototype.indexOf.call(c.children,i)];
if(j===undefined)return;
tip.textContent="";add("b",d.players[j]);
d.labels.forEach(function(l,m){var s=d.scores[m][j];add("span",l+" "+(s>0&&d.signed[m]?"+":"")+s)});
tip.style.display="block"}
document.addEventListener("mouseover",show);document.addEventListener("click",show);
})();
""".strip()
