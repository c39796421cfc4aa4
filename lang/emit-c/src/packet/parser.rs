//! Facts about a parser's variables that are determined before it is printed. These are the event that can be
//! built in its place in the output, and the options that need to be looked up only once.

use std::ops::Range;

use hawser_ir::visit::{self, PlaceAccess, Visitor};
use hawser_ir::{
    Arg, Base, BlueprintId, Expr, ExprKind, Func, FuncId, Index, Place, Query, Step, Stmt, StmtKind, Ty,
};

use super::format::options;
use super::usual::TAGS;
use crate::analysis::Summary;
use crate::emitter::Emitter;
use crate::function::pointer_name;
use crate::scope::Scope;

impl Emitter<'_> {
    /// Returns the index of the variable that can be built in its event's place in the output. It holds the
    /// last event of a parser. No event may be added after it has begun, and the parser may not use it after
    /// it has been added. There is room, because the checker has bounded the number of events of a parser.
    pub(crate) fn in_place(&self, s: &Scope, func: &Func) -> Option<usize> {
        let is_parser = |id: FuncId| std::ptr::eq(self.func(id), func);
        if !self.module.parsers.iter().any(|parser| is_parser(parser.func)) {
            return None;
        }
        let pushed = func
            .body
            .iter()
            .rposition(|stmt| matches!(stmt.kind, StmtKind::PushEvent { .. }))?;
        let StmtKind::PushEvent { from, .. } = &func.body[pushed].kind else {
            return None;
        };
        let index = s.locals.iter().position(|local| {
            from.base == Base::Local && from.steps.is_empty() && local.offset == from.offset
        })?;
        let local = &s.locals[index];
        // Its declaration, which sets it to zero, is not part of a nested block.
        let declared = |stmt: &Stmt| {
            let here = s
                .plan
                .before(stmt)
                .iter()
                .find(|declared| declared.local == index);
            here.is_some_and(|here| !here.set_whole || matches!(stmt.kind, StmtKind::Init(_)))
        };
        let begins = func.body[..=pushed].iter().position(declared)?;
        let is_alone = self.pushes(&func.body[begins..]) == 1;
        let part = local.offset..local.offset + local.size.max(1);
        let is_mentioned =
            is_mentioned(&func.body[..begins], &part) || is_mentioned(&func.body[pushed + 1..], &part);
        let whole = self.layout().size(&from.ty) == local.size
            && self.zero(&local.ty) == "{0}"
            && !self.has_defaults(&local.ty);
        (whole && is_alone && !is_mentioned).then_some(index)
    }

    /// Prints `flow_id a(…), b(…); set_flow_id(e, a, b);` with the ids made directly in the event's header.
    /// The event itself must be built in its place in the output, and the ids may not be mentioned elsewhere.
    /// Returns the number of statements printed.
    pub(crate) fn ids_in_place(&mut self, s: &mut Scope, stmts: &[Stmt]) -> usize {
        let made = stmts
            .iter()
            .take_while(|stmt| matches!(stmt.kind, StmtKind::MakeId(..)))
            .count();
        let (Some(index), Some(body), true) = (s.in_place, s.body, (1..=3).contains(&made)) else {
            return 0;
        };
        let Some(StmtKind::SetIds { event: of, ids }) = stmts.get(made).map(|stmt| &stmt.kind) else {
            return 0;
        };
        let event = &s.locals[index];
        let targets = stmts[..made].iter().filter_map(|stmt| {
            let StmtKind::MakeId(to, _) = &stmt.kind else {
                return None;
            };
            Some(to)
        });
        let same = targets.eq(ids.iter()) && of.base == Base::Local && of.offset == event.offset;
        let module = self.module;
        let whole = &module.funcs[body.0 as usize].body;
        let twice = ids.iter().all(|id| {
            let mut mentions = 0;
            visit::places(whole, |place, _| {
                mentions += usize::from(place.base == id.base && place.offset == id.offset);
            });
            id.base == Base::Local && id.steps.is_empty() && mentions == 2
        });
        let names_event = is_mentioned(&stmts[..made], &(event.offset..event.offset + event.size));
        // The event itself may begin here; any other variable that begins is declared in the usual way.
        let begun: Vec<usize> = stmts[..=made]
            .iter()
            .flat_map(|stmt| s.plan.before(stmt))
            .map(|begun| begun.local)
            .collect();
        let is_id = |local: &usize| ids.iter().any(|id| id.offset == s.locals[*local].offset);
        let only_these = begun.iter().all(|local| *local == index || is_id(local));
        if !same || !twice || names_event || !only_these {
            return 0;
        }
        if begun.contains(&index) {
            self.declare(s, index, "{0}");
        }
        let head = Place { ty: Ty::Struct(hawser_ir::StructId(0)), ..of.clone() };
        let head = self.target(s, &head).at.address();
        let name = s.names.take("header");
        s.out.line(&format!("hw_event *const {name} = {head};"));
        s.out.line(&format!("{name}->ids = {made};"));
        for (i, stmt) in stmts[..made].iter().enumerate() {
            let StmtKind::MakeId(to, parts) = &stmt.kind else {
                continue;
            };
            self.mark(s, stmt);
            let id = s
                .local(to.offset)
                .map_or_else(String::new, |local| pointer_name(&local.name).to_owned());
            s.out.line(&format!("hw_id *const {id} = &{name}->id[{i}];"));
            s.out.line(&format!("*{id} = (hw_id){{{{0}}}};"));
            self.pack_id(s, &format!("{id}->"), parts);
        }
        for i in made..3 {
            s.out.line(&format!("{name}->id[{i}] = (hw_id){{{{0}}}};"));
        }
        made + 1
    }

    /// Returns the number of statements, here and in callees, that add an event.
    fn pushes(&self, body: &[Stmt]) -> usize {
        let called: usize = visit::callees(body)
            .iter()
            .map(|callee| self.pushes(&self.func(*callee).body))
            .sum();
        called + own_pushes(body)
    }

    /// Handles the code behind `p.extract(h)` if `h` stays unchanged: options that are requested more than
    /// once are looked up here.
    pub(super) fn look_up_options(&mut self, s: &mut Scope, id: BlueprintId, dst: &Place) {
        let (Some(body), Some((list, at, cap))) = (s.body, options(&self.module.blueprints[id.0 as usize]))
        else {
            return;
        };
        let Some(local) = s
            .local(dst.offset)
            .filter(|_| dst.base == Base::Local && dst.steps.is_empty())
        else {
            return;
        };
        let image = local.offset..local.offset + local.size;
        let list_at = dst.offset + at;
        let mut uses = OptionUses {
            summaries: &self.summaries,
            image: image.clone(),
            list_at,
            written: 0,
            asked: Vec::new(),
        };
        visit::visit_block(&mut uses, &self.module.funcs[body.0 as usize].body);
        let OptionUses { written, mut asked, .. } = uses;
        asked.sort_unstable();
        let often = asked
            .chunk_by(|a, b| a == b)
            .filter(|same| same.len() > 1)
            .map(|same| same[0]);
        if written != 1 {
            return;
        }
        s.header = Some(image);
        let ty = Ty::Options { list, cap };
        for tag in often {
            let place = Place { base: Base::Local, offset: list_at, steps: Vec::new(), ty: ty.clone() };
            let mut found = self.option_at(s, &place, list, cap, tag);
            if self.is_read_by_tag(list, cap) {
                let tags = self.seen(s, &place).member("pad").lvalue();
                found = format!("{tags} >> {} & 1 ? {found} : HW_NOTHING", tag % TAGS);
            }
            let item = self.item_type(&ty);
            let name = s.names.take(&self.option_name(list, tag));
            s.out.line(&format!("const {item} *const {name} = {found};"));
            s.options.push((list_at, tag, name));
        }
    }
}

fn own_pushes(body: &[Stmt]) -> usize {
    let of = |stmt: &Stmt| {
        let inner: usize = stmt.kind.blocks().into_iter().map(own_pushes).sum();
        // A statement in a loop may run more than once.
        let times = if matches!(stmt.kind, StmtKind::For { .. }) {
            2
        } else {
            1
        };
        times * inner + usize::from(matches!(stmt.kind, StmtKind::PushEvent { .. }))
    };
    body.iter().map(of).sum()
}

/// True if statements mention a part of the frame.
fn is_mentioned(stmts: &[Stmt], part: &Range<u32>) -> bool {
    let mut found = false;
    visit::places(stmts, |place, _| {
        found |= place.base == Base::Local && part.contains(&place.offset);
    });
    found
}

/// The number of writes to an image, and the options of it that are requested.
struct OptionUses<'a> {
    summaries: &'a [Summary],
    /// The part of the frame that holds the image.
    image: Range<u32>,
    list_at: u32,
    written: usize,
    /// The requested tags, one entry for each request.
    asked: Vec<u32>,
}

impl OptionUses<'_> {
    fn concerns(&self, place: &Place) -> bool {
        place.base == Base::Local && self.image.contains(&place.offset)
    }

    fn is_list(&self, place: &Place) -> bool {
        place.base == Base::Local && place.offset == self.list_at
    }
}

impl Visitor<'_> for OptionUses<'_> {
    fn place(&mut self, place: &Place, access: PlaceAccess) {
        self.written += usize::from(access.writes() && self.concerns(place));
        if let Some(Step { index: Index::Tag(tag), .. }) = place.steps.first()
            && self.is_list(place)
        {
            self.asked.push(*tag);
        }
    }

    fn call(&mut self, func: FuncId, args: &[Arg]) {
        let writes = &self.summaries[func.0 as usize].writes;
        let refs = args.iter().filter_map(|arg| match arg {
            Arg::Ref(place) => Some(place),
            Arg::Value(_) => None,
        });
        for (place, written) in refs.zip(writes) {
            self.written += usize::from(*written && self.concerns(place));
        }
    }

    fn expr(&mut self, e: &Expr) {
        if let ExprKind::Query(Query::HasTag(list, tag)) = &e.kind
            && self.is_list(list)
        {
            self.asked.push(*tag);
        }
    }
}
