// What may stand in a dashboard of ours, in the types of Grafana's own packages. `derive` makes dashboard.schema.json of it.

import type { GraphFieldConfig, HideableFieldConfig } from "@grafana/schema";
import type { DataTransformerID, FieldMatcherID } from "@grafana/data";
import type * as raw from "./node_modules/@grafana/schema/dist/types/raw/dashboard/x/dashboard_types.gen";
import type * as BarChart from "./node_modules/@grafana/schema/dist/types/raw/composable/barchart/panelcfg/x/BarChartPanelCfg_types.gen";
import type * as BarGauge from "./node_modules/@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen";
import type * as Gauge from "./node_modules/@grafana/schema/dist/types/raw/composable/gauge/panelcfg/x/GaugePanelCfg_types.gen";
import type * as Heatmap from "./node_modules/@grafana/schema/dist/types/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen";
import type * as Histogram from "./node_modules/@grafana/schema/dist/types/raw/composable/histogram/panelcfg/x/HistogramPanelCfg_types.gen";
import type * as PieChart from "./node_modules/@grafana/schema/dist/types/raw/composable/piechart/panelcfg/x/PieChartPanelCfg_types.gen";
import type * as Stat from "./node_modules/@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as StateTimeline from "./node_modules/@grafana/schema/dist/types/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen";
import type * as StatusHistory from "./node_modules/@grafana/schema/dist/types/raw/composable/statushistory/panelcfg/x/StatusHistoryPanelCfg_types.gen";
import type * as Table from "./node_modules/@grafana/schema/dist/types/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen";
import type * as Text from "./node_modules/@grafana/schema/dist/types/raw/composable/text/panelcfg/x/TextPanelCfg_types.gen";
import type * as TimeSeries from "./node_modules/@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";
import type * as Trend from "./node_modules/@grafana/schema/dist/types/raw/composable/trend/panelcfg/x/TrendPanelCfg_types.gen";
import type * as XYChart from "./node_modules/@grafana/schema/dist/types/raw/composable/xychart/panelcfg/x/XYChartPanelCfg_types.gen";

interface Source {
  type: "grafana-postgresql-datasource";
  uid: "bench";
}

// The packages do not know the query of a data source.
interface Query {
  refId: string;
  datasource: Source;
  format: "time_series" | "table";
  rawQuery: true;
  rawSql: string;
  editorMode?: "code";
  hide?: boolean;
}

// Of DataLink, what can be written down.
interface Link {
  title: string;
  url: string;
  targetBlank?: boolean;
  oneClick?: boolean;
}

type Field = Omit<raw.FieldConfig, "custom" | "links"> & { links?: Link[] };

type Panel = Omit<
  raw.Panel,
  "type" | "id" | "gridPos" | "pluginVersion" | "datasource" | "fieldConfig" | "options" | "targets" | "transformations" | "links"
> & {
  id: number;
  gridPos: raw.GridPos;
  pluginVersion: string;
  datasource?: Source;
  links?: Link[];
  targets?: Query[];
  transformations?: (Omit<raw.DataTransformerConfig, "id"> & { id: `${DataTransformerID}` })[];
};

interface Options {
  barchart: BarChart.Options;
  bargauge: BarGauge.Options;
  gauge: Gauge.Options;
  heatmap: Heatmap.Options;
  histogram: Histogram.Options;
  piechart: PieChart.Options;
  stat: Stat.Options;
  "state-timeline": StateTimeline.Options;
  "status-history": StatusHistory.Options;
  table: Table.Options;
  text: Text.Options;
  timeseries: TimeSeries.Options;
  trend: Trend.Options;
  xychart: XYChart.Options;
}

// The panel has it, its types do not.
type Nulls = Pick<GraphFieldConfig, "spanNulls" | "insertNulls">;

// Of a field, by type of panel; the others have none.
interface Custom {
  barchart: BarChart.FieldConfig;
  heatmap: Heatmap.FieldConfig;
  histogram: Histogram.FieldConfig;
  piechart: HideableFieldConfig;
  "state-timeline": StateTimeline.FieldConfig & Nulls;
  "status-history": StatusHistory.FieldConfig;
  table: Table.FieldConfig;
  timeseries: TimeSeries.FieldConfig;
  trend: Trend.FieldConfig;
  xychart: XYChart.FieldConfig;
}

type Row = Omit<raw.RowPanel, "panels" | "datasource" | "gridPos"> & { gridPos: raw.GridPos; panels: unknown[] };

type Variable = Omit<raw.VariableModel, "datasource" | "current"> & {
  datasource?: Source;
  definition?: string;
  current?: Partial<raw.VariableOption>;
};

type Annotation = Omit<raw.AnnotationQuery, "target" | "datasource"> & {
  datasource: Source | { type: "grafana"; uid: "-- Grafana --" };
  target?: Omit<Query, "datasource"> | Partial<raw.AnnotationTarget>;
};

type Dashboard = Omit<
  raw.Dashboard,
  "panels" | "templating" | "annotations" | "links" | "uid" | "title" | "schemaVersion"
> & {
  uid: string;
  title: string;
  schemaVersion: 42;
  panels: unknown[]; // each by its type
  templating?: { list: Variable[] };
  annotations?: { list: Annotation[] };
  links?: Partial<raw.DashboardLink>[];
};

export interface Schema {
  dashboard: Dashboard;
  panel: Panel;
  row: Row;
  options: Options;
  field: Field;
  custom: Custom;
  matcher: { id: `${FieldMatcherID}`; options?: unknown };
}
