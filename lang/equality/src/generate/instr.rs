//! Instructions, issued by `emit`, or added to a processor's list in the paper's style.

use super::body::Body;
use super::scope::Var;
use super::types::{NET, StructureKind, Type};

const NOTICES: &[&str] = &["CONNECTED", "EOF", "CLOSED"];

impl Body<'_> {
    /// Issues an instruction.
    pub(super) fn instruction(&mut self) {
        if self.rng.one_in(3) {
            return self.packet();
        }
        let Some(text) = self.instruction_text() else {
            return;
        };
        self.issue(&text);
    }

    fn issue(&mut self, text: &str) {
        if !self.rules.listed {
            return self.line(format!("emit {text};"));
        }
        if self.rng.one_in(2) || text.contains("->") {
            return self.line(format!("out.add({text});"));
        }
        let name = self.fresh_name("n");
        self.line(format!("instr_t {name} = {text};"));
        // The values from which it was made may change now.
        self.statements(1, 0);
        self.line(format!("out.add({name});"));
    }

    fn instruction_text(&mut self) -> Option<String> {
        let word = Type::Uint(64);
        // A GLOBAL context has no id of its own.
        let id = |body: &mut Self| {
            let found = body.find(false, &|ty| *ty == Type::Id).map(|v| v.path);
            found.filter(|path| path != "g.self")
        };
        Some(match self.rng.below(23) {
            0 => {
                let (size, uid) = (self.size(), id(self)?);
                if self.rng.one_in(2) {
                    format!("new_tx_ordered_data({size}, {uid})")
                } else {
                    format!(
                        "new_tx_ordered_data({size}, {uid}, {})",
                        self.expr(&Type::Addr, 1)
                    )
                }
            }
            1 => {
                let name = *self.rng.pick(&["add_tx_data", "add_tx_data_seg"]);
                format!(
                    "{name}({}, {}, {})",
                    self.expr(&Type::Addr, 1),
                    self.expr(&word, 2),
                    id(self)?
                )
            }
            2 => format!("tx_flush_and_notify({}, {})", id(self)?, self.expr(&word, 2)),
            3 => {
                let (size, uid) = (self.size(), id(self)?);
                match self.rng.below(3) {
                    0 => format!("new_rx_ordered_data({size}, {uid})"),
                    _ => format!(
                        "new_rx_ordered_data({size}, {uid}, {}, {})",
                        self.expr(&Type::Addr, 1),
                        self.expr(&word, 1)
                    ),
                }
            }
            4 => {
                let name = *self.rng.pick(&["add_rx_data_seg", "add_data_seg"]);
                let (addr, len) = (self.expr(&Type::Addr, 1), self.expr(&word, 1));
                format!("{name}({addr}, {len}, {}, {})", id(self)?, self.expr(&word, 1))
            }
            5 => {
                let (uid, len) = (id(self)?, self.expr(&word, 1));
                format!("rx_flush_and_notify({uid}, {len}, {})", self.expr(&Type::Addr, 1))
            }
            6..=8 => {
                let timer = self.timer()?;
                let name = *self.rng.pick(&["timer_start", "timer_restart"]);
                format!("{name}({timer}, {})", self.expr(&Type::Duration, 2))
            }
            9 => format!("timer_stop({})", self.timer()?),
            10 if self.rng.one_in(3) => "del_ctx()".to_owned(),
            11 => format!("add_id({})", id(self)?),
            12 => format!("drop_id({})", id(self)?),
            13 | 14 => {
                let event = self.pick_record(&|kind| kind == StructureKind::Event("EVENT"))?;
                let literal = self.record_literal(event);
                let target = self.find(false, &|ty| *ty == Type::Id);
                match target.filter(|_| self.rng.one_in(2)) {
                    Some(target) => format!("raise({literal}, {})", target.path),
                    None => format!("raise({literal})"),
                }
            }
            15 => {
                let signal = self.pick_record(&|kind| kind == StructureKind::Signal)?;
                format!("signal({})", self.record_literal(signal))
            }
            22 => {
                let name = *self.rng.pick(&["del_tx_ordered_data", "del_rx_ordered_data"]);
                format!("{name}({})", id(self)?)
            }
            16 => format!("set_queue_rate({}, {})", self.queue("RATE")?, self.expr(&word, 1)),
            17 => format!("set_queue_prio({}, {})", self.queue("")?, self.expr(&word, 1)),
            18 => format!("queue_reset({})", self.queue("")?),
            19 => {
                let ext = self.rng.pick(&self.plan.externs).clone();
                let args: Vec<String> = ext.params.iter().map(|ty| self.expr(ty, 2)).collect();
                let answer = if self.rules.listed {
                    String::new()
                } else {
                    format!(" -> {}", ext.answer)
                };
                format!("{}({}){answer}", ext.name, args.join(", "))
            }
            _ => self.notice()?,
        })
    }

    fn notice(&mut self) -> Option<String> {
        Some(match self.rng.below(6) {
            0 => {
                let id = self.find(false, &|ty| *ty == Type::Id)?;
                (id.path != "g.self").then(|| format!("notify(ACCEPTED, {})", id.path))?
            }
            1 => format!("notify(FAILED, {})", self.expr(&Type::Uint(32), 2)),
            2 => "notify(FAILED, ETIMEDOUT)".to_owned(),
            3 | 4 => format!("notify({})", self.record_literal(self.plan.notice)),
            _ => format!("notify({})", self.rng.pick(NOTICES)),
        })
    }

    fn size(&mut self) -> String {
        if self.rng.one_in(2) {
            "INF".to_owned()
        } else {
            self.expr(&Type::Uint(64), 1)
        }
    }

    fn timer(&mut self) -> Option<String> {
        (!self.timers.is_empty()).then(|| self.rng.pick(&self.timers).clone())
    }

    /// Returns a queue whose policy begins with this text, if there is one.
    fn queue(&mut self, policy: &str) -> Option<String> {
        let all = self.plan.queues.iter().enumerate();
        let found: Vec<usize> = all
            .filter(|(_, of)| of.starts_with(policy))
            .map(|(i, _)| i)
            .collect();
        (!found.is_empty()).then(|| format!("nic.q{}", self.rng.pick(&found)))
    }

    fn pick_record(&mut self, suits: &dyn Fn(StructureKind) -> bool) -> Option<usize> {
        let all = self.plan.records.iter().enumerate();
        let found: Vec<usize> = all.filter(|(_, r)| suits(r.kind)).map(|(i, _)| i).collect();
        (!found.is_empty()).then(|| *self.rng.pick(&found))
    }

    /// Generates a filled header, and the instruction to send it.
    fn packet(&mut self) {
        if self.plan.blueprints.is_empty() {
            return;
        }
        let blueprint = self.rng.pick(&self.plan.blueprints).clone();
        let (net, header) = (self.fresh_name("ip"), self.fresh_name("b"));
        let name = &self.plan.records[blueprint.record].name;
        self.line(format!("IPheader {net};"));
        self.line(format!("{name} {header};"));
        let outside = std::mem::take(&mut self.vars);
        self.vars.push(Var::new(net.clone(), Type::Record(NET), true));
        self.vars
            .push(Var::new(header.clone(), Type::Record(blueprint.record), true));
        let own = self.vars.len();
        self.vars.extend(outside);
        // Its own fields come first, so that they are the ones that are set.
        self.vars.rotate_left(own);
        for _ in 0..5 {
            self.fill_header(&header, blueprint.record);
        }
        let rules = self.rules_of(&blueprint);
        let mut text = format!("pkt_gen({net}, {header}");
        rules.iter().for_each(|rule| text += &format!(", {rule}"));
        let policy = *self.rng.pick(&["", "", "RANK", "RATE"]);
        if self.rng.one_in(2)
            && let Some(queue) = self.queue(policy)
        {
            text += &format!(", queue {queue}");
            if let "RANK" | "RATE" = policy {
                let label = if policy == "RANK" { "rank" } else { "cost" };
                text += &format!(", {label} uint64({})", self.expr(&Type::Uint(64), 1));
            }
        }
        text.push(')');
        self.issue(&text);
    }

    /// Sets one field of a header, adds an option, or sets its payload.
    fn fill_header(&mut self, header: &str, record: usize) {
        let fields = self.plan.records[record].fields.clone();
        let field = self.rng.pick(&fields).clone();
        let path = format!("{header}.{}", field.name);
        match &field.ty {
            ty if ty.is_scalar() && *ty != Type::Addr => {
                let value = self.expr(ty, 2);
                self.line(format!("{path} = {value};"));
            }
            Type::Options(list, _) => {
                let member = *self.rng.pick(&self.plan.options[*list].members);
                let literal = self.record_literal(member);
                self.line(format!("{path}.add({literal});"));
            }
            Type::Data => {
                if let Some(uid) = self.find(false, &|ty| *ty == Type::Id)
                    && uid.path != "g.self"
                {
                    let off = self.expr(&Type::Uint(64), 1);
                    let (len, size) = (self.rng.below(5000), self.rng.below(1500));
                    self.line(format!("{path} = data({}, {off}, {len}, {size});", uid.path));
                }
            }
            Type::List(elem, _) => {
                if let Some(value) = self.aggregate(elem) {
                    self.line(format!("{path}.push_back({value});"));
                }
            }
            _ => {}
        }
    }

    /// Generates up to four rules of a blueprint with up to four arguments, one for each field.
    fn rules_of(&mut self, blueprint: &super::plan::Blueprint) -> Vec<String> {
        let mut room = 4;
        let mut chosen = Vec::new();
        for rule in &blueprint.rules {
            if rule.args > room || self.rng.one_in(3) {
                continue;
            }
            room -= rule.args;
            let args: Vec<String> = (0..rule.args).map(|_| self.expr(&rule.ty, 1)).collect();
            chosen.push(if args.is_empty() && self.rng.one_in(2) {
                rule.name.clone()
            } else {
                format!("{}({})", rule.name, args.join(", "))
            });
        }
        chosen
    }
}
