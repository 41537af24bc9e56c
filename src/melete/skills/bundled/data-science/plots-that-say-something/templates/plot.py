"""A line chart whose title is the finding. Replace the data, the title, the unit and the source."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
SERIES = {
    "north": [12, 13, 15, 14, 18, 21, 22, 24, 23, 27, 30, 33],
    "south": [14, 14, 13, 15, 14, 15, 13, 14, 15, 14, 13, 14],
}
SPOKEN_OF = {"north": "#0072B2"}

plt.rcParams["svg.fonttype"] = "none"  # text stays text in the SVG
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, values in SERIES.items():
    colour = SPOKEN_OF.get(name, "#888888")
    ax.plot(MONTHS, values, color=colour, lw=2)
    ax.annotate(name, (MONTHS[-1], values[-1]), xytext=(6, 0), textcoords="offset points", color=colour, va="center")
ax.set_title("Orders in the north doubled; the south stood still", loc="left")
ax.set_ylabel("orders per day")
ax.set_ylim(bottom=0)
ax.spines[["top", "right"]].set_visible(False)
fig.supxlabel("Source: orders.csv, 2024", x=0.01, ha="left", fontsize=8, color="#666666")
fig.savefig("plot.png", dpi=150)
fig.savefig("plot.svg")
