(function () {
  'use strict';
  var each = function (root, selector, act) { root.querySelectorAll(selector).forEach(act); };

  function chart(figure) {
    var svg = figure.querySelector('.plot > svg');
    var plot = figure.querySelector('.plot');
    var tip = figure.querySelector('.tip');
    var legend = figure.querySelector('.legend');
    var all = figure.querySelector('.legend .all');
    var keys = Array.from(legend.querySelectorAll('[data-line]:not(:disabled)'));
    var current = null;

    // The tooltip says it better, and both at once would be too much.
    each(svg, '.dot > title', function (title) {
      title.parentNode.setAttribute('aria-label', title.textContent);
      title.remove();
    });

    function lineOf(dot) { return dot.parentNode; }
    function place(dot) {
      var at = dot.transform.baseVal.getItem(0).matrix;
      return { x: at.e, y: at.f };
    }
    function shown() {
      return Array.from(svg.querySelectorAll('.series:not(.off) .dot'));
    }
    function series(number) {
      return svg.querySelector('.series[data-line="' + number + '"]');
    }

    function hide() {
      if (current) { current.classList.remove('on'); }
      current = null;
      tip.hidden = true;
      svg.classList.remove('faded');
      each(svg, '.series.lit', function (line) { line.classList.remove('lit'); });
    }

    function say(kind, name, text) {
      if (!text) { return; }
      var part = document.createElement(kind);
      part.className = name;
      part.textContent = text;
      tip.appendChild(part);
    }

    function show(dot) {
      if (dot === current) { return; }
      hide();
      current = dot;
      dot.classList.add('on');
      var line = lineOf(dot);
      line.classList.add('lit');
      svg.classList.add('faded');
      tip.textContent = '';
      var key = legend.querySelector('[data-line="' + line.dataset.line + '"]');
      say('b', '', key.textContent.trim() + ', ' + dot.dataset.x);
      say('span', 'big', dot.dataset.value);
      say('span', '', dot.dataset.stalled);
      say('span', '', dot.dataset.interval);
      say('span', '', dot.dataset.compared);
      tip.hidden = false;
      var scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      var at = place(dot);
      var x = at.x * scale, y = at.y * scale;
      var left = Math.max(0, Math.min(x - tip.offsetWidth / 2, plot.clientWidth - tip.offsetWidth));
      var top = y - tip.offsetHeight - 14;
      if (top < 0) { top = y + 14; }
      if (top + tip.offsetHeight > plot.clientHeight) {
        top = 0;
        left = x > plot.clientWidth / 2 ? Math.max(0, x - tip.offsetWidth - 14) : Math.min(x + 14, plot.clientWidth - tip.offsetWidth);
      }
      tip.style.left = left + 'px';
      tip.style.top = top + 'px';
    }

    // One stop for the Tab key in each figure; the arrow keys walk from point to point. The
    // listeners are not on the drawing itself: Chromium would make that a stop of its own.
    function stop(dot) {
      each(svg, '.dot[tabindex="0"]', function (other) { other.setAttribute('tabindex', '-1'); });
      if (dot) { dot.setAttribute('tabindex', '0'); }
    }

    function next(dot, key) {
      var column = Number(dot.dataset.column), here = place(dot);
      var dots = shown().filter(function (other) { return other !== dot; });
      var away;
      if (key === 'ArrowLeft' || key === 'ArrowRight') {
        var step = key === 'ArrowRight' ? 1 : -1;
        dots = dots.filter(function (other) { return lineOf(other) === lineOf(dot); });
        away = function (other) { return (Number(other.dataset.column) - column) * step; };
      } else {
        var way = key === 'ArrowDown' ? 1 : -1;
        dots = dots.filter(function (other) { return Number(other.dataset.column) === column; });
        away = function (other) {
          var apart = (place(other).y - here.y) * way;
          var order = (Number(lineOf(other).dataset.line) - Number(lineOf(dot).dataset.line)) * way;
          return apart || order * 1e-6;
        };
      }
      dots = dots.filter(function (other) { return away(other) > 0; });
      dots.sort(function (a, b) { return away(a) - away(b); });
      return dots[0];
    }

    plot.addEventListener('focusin', function (event) {
      var dot = event.target.closest('.dot');
      if (dot) { stop(dot); show(dot); }
    });
    plot.addEventListener('focusout', hide);
    plot.addEventListener('keydown', function (event) {
      var dot = event.target.closest('.dot');
      if (!dot) { return; }
      if (event.key === 'Escape') { hide(); return; }
      if (event.key.indexOf('Arrow') !== 0) { return; }
      event.preventDefault();
      var to = next(dot, event.key);
      if (to) { to.focus(); }
    });

    function nearest(event) {
      var box = svg.getBoundingClientRect();
      var scale = svg.viewBox.baseVal.width / box.width;
      var x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      var best = null, least = 40;
      shown().forEach(function (dot) {
        var at = place(dot), apart = Math.hypot(at.x - x, at.y - y);
        if (apart < least) { best = dot; least = apart; }
      });
      return best;
    }
    function point(event) {
      var dot = nearest(event);
      if (dot) { show(dot); } else { hide(); }
    }
    svg.addEventListener('pointermove', point);
    svg.addEventListener('pointerdown', point);
    svg.addEventListener('pointerleave', function (event) {
      if (event.pointerType === 'mouse') { hide(); }
    });

    function set(key, on) {
      key.setAttribute('aria-pressed', String(on));
      series(key.dataset.line).classList.toggle('off', !on);
    }
    function settle() {
      hide();
      var any = keys.some(function (key) { return key.getAttribute('aria-pressed') === 'true'; });
      if (all) { all.textContent = any ? 'hide all' : 'show all'; }
      stop(shown()[0]);
    }
    keys.forEach(function (key) {
      key.addEventListener('click', function () {
        set(key, key.getAttribute('aria-pressed') !== 'true');
        settle();
      });
      var light = function () {
        if (key.getAttribute('aria-pressed') !== 'true') { return; }
        hide();
        series(key.dataset.line).classList.add('lit');
        svg.classList.add('faded');
      };
      key.addEventListener('pointerenter', light);
      key.addEventListener('pointerleave', hide);
    });
    if (all) {
      all.addEventListener('click', function () {
        var on = all.textContent === 'show all';
        keys.forEach(function (key) { set(key, on); });
        settle();
      });
    }

    each(figure, '[data-show]', function (button) { button.addEventListener('click', hide); });
    stop(shown()[0]);
  }

  // Drawing or table.
  function switched(figure) {
    var views = Array.from(figure.querySelectorAll('[data-show]'));
    views.forEach(function (button) {
      button.addEventListener('click', function () {
        figure.dataset.view = button.dataset.show;
        views.forEach(function (other) { other.setAttribute('aria-pressed', String(other === button)); });
      });
    });
  }

  function comparisons(details) {
    var filters = Array.from(details.querySelectorAll('[data-filter]'));
    var rows = Array.from(details.querySelectorAll('tbody tr'));
    function filter(verdict) {
      filters.forEach(function (button) { button.setAttribute('aria-pressed', String(button.dataset.filter === verdict)); });
      rows.forEach(function (row) { row.hidden = verdict !== '' && row.dataset.verdict !== verdict; });
    }
    filters.forEach(function (button) {
      button.addEventListener('click', function () { filter(button.dataset.filter); });
    });
    each(document, '.evidence', function (link) {
      link.addEventListener('click', function () {
        var wanted = link.dataset.rows.split(' ');
        details.open = true;
        filter('');
        rows.forEach(function (row) { row.classList.toggle('hit', wanted.indexOf(row.id) >= 0); });
      });
    });
  }

  // A table that goes on to the right fades out there.
  function fade(box) {
    var more = function () {
      box.classList.toggle('more', box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    };
    box.addEventListener('scroll', more, { passive: true });
    new ResizeObserver(more).observe(box);
  }

  each(document, '.scroll', fade);
  each(document, 'figure.chart', chart);
  each(document, 'figure[data-view]', switched);
  each(document, '#all', comparisons);
})();
