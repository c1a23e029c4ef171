import { render } from 'preact';
import 'uplot/dist/uPlot.min.css';
import './styles/base.css';
import './styles/header.css';
import './styles/menus.css';
import './styles/pages.css';
import './styles/panels.css';
import './styles/charts.css';
import './styles/tables.css';
import './styles/delivery.css';
import './styles/small.css';
import { App } from './app.tsx';

render(<App />, document.getElementById('app')!);
